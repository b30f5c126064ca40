"""What is watched so that stuck work is told: a module for each thing, and a lookout over all."""
