//! Has the crate built anew when a file changes that comes with it, which `include_dir` does not.

fn main() {
    println!("cargo::rerun-if-changed=shipped");
}
