"""The bake-off problems of finite elements."""
