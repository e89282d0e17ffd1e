"""Start the web application: `python app.py`."""

from app.server import main

if __name__ == "__main__":
    main()
