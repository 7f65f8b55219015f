"""``python -m proxyprox``: the command line."""

from proxyprox_app.cli import main

if __name__ == "__main__":
    main()
