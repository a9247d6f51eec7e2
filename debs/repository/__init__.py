"""A signed apt repository of packages: a folder that any web server can publish (apt-secure(8))."""
