"""A page to look at and to steer by, on a gateway or a home router."""
