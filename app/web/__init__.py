"""Routes and layers of the server beside the API."""
