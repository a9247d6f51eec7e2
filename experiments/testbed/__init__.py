"""A network of namespaces on one machine: a client with access links, a gateway, a legacy server."""
