"""The Sparse Deep Neural Network Graph Challenge: networks, files, images, inference and benchmarks."""
