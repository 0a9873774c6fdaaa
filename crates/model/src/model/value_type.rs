//! Names the types of the values that travel.

/// Says how the values of a block are represented, in memory and on the wire (little-endian).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueType {
    /// IEEE 754 single precision.
    #[default]
    F32,
    /// 32-bit unsigned integers.
    U32,
    /// 64-bit unsigned integers.
    U64,
    /// Bytes that only the method can interpret.
    Bytes,
}

impl ValueType {
    /// Returns the number of bytes of one value.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::U32 => 4,
            Self::U64 => 8,
            Self::Bytes => 1,
        }
    }

    /// Returns the code of the type in a frame.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::F32 => 0,
            Self::U32 => 1,
            Self::U64 => 2,
            Self::Bytes => 3,
        }
    }
}
