//! The switch's configuration.
