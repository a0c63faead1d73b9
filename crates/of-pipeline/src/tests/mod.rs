//! The rules, on a running switch with memory ports.

mod bed;
mod bundles;
mod conjunctions;
mod conntrack;
mod conntrack_late;
mod egress;
mod emergency;
mod errors;
mod extensions;
mod fields;
mod flow_rules;
mod groups;
mod limits;
mod model;
mod packets;
mod pause;
mod ports;
mod reasons;
mod scale;
mod shapes;
mod softflow;
mod subroutines;
mod synchronised;
mod triggers;
mod validate;
mod vswitch_rules;
