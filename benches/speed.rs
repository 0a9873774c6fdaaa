//! Speed of the parts, beside what the machine can do.

fn main() {}
