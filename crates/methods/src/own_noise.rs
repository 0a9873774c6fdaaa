//! Tells what the noise is worth that a method's devices add by themselves, beside what `[privacy]`
//! asks for.

/// What may be counted of the noise in the uploads of a method, for a user all of whose ratings are
/// replaced and who trusts nobody. Noise has to be in every value of an upload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OwnNoise {
    /// A participation tells no more of its user than one Gaussian mechanism with this noise
    /// multiplier: its noise divided by how far a replaced user can move its result.
    Gaussian(f64),
    /// There is no noise: what is clipped stays as it is.
    Absent,
    /// How many steps a device makes depends on its data, so that neither their noise nor their
    /// length can be counted.
    StepsByData,
    /// The noise falls with the learning rate from round to round, faster than what it has to hide,
    /// and participations are counted as if they were alike.
    FallsByRound,
}
