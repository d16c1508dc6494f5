"""Images: what they start from, how they are built, why a build failed."""
