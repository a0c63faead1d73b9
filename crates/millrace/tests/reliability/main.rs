//! What a switch does when something fails, ends or is too much.

mod bed;
mod limits;
mod silence;
