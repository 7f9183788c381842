"""The Sparse Deep Neural Network Graph Challenge: its networks, files and images, inference and rivals."""
