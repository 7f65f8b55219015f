"""The command ``proxyprox``, also as ``python -m proxyprox``: its code is in `proxyprox_app`."""

import sys


def main() -> None:
    """Run the command, or say what to install if a package of the application is missing."""
    try:
        from proxyprox_app.cli import main as run
    except ModuleNotFoundError as error:
        if str(error.name).startswith("proxyprox"):
            raise
        needs = f"The command proxyprox needs {error.name}, which is not installed"
        sys.stderr.write(f'{needs}: pip install "proxyprox[app]"\n')
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()
