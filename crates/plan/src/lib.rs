//! Chooses how each table is looked up.
