"""The engines that answer, and what is counted of them."""
