"""What the tests run in network namespaces: each by ``python -m``, with its standard input and output as its door."""
