"""The application: the command ``proxyprox``, the tables it reads and the pages it writes."""
