"""What is asked, and the examples."""
