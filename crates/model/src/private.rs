//! Keeps private parameters from leaving the client.

/// Holds a parameter that is private to one client, such as a user vector, FedRAP's D or a score
/// function.
///
/// It can be read and trained, but codecs do not accept it, and it neither serialises nor
/// dereferences to something that does. A private parameter that is handed to a codec does not
/// compile (contract 4; [`crate::codec`] shows it). To send what training made of private
/// parameters, a method copies the values into a [`Table`](super::table::Table) explicitly, at a
/// call of [`Private::get`] that a reader can find.
#[derive(Clone)]
pub struct Private<T>(T);

impl<T> Private<T> {
    /// Makes `parameter` private.
    pub const fn new(parameter: T) -> Self {
        Self(parameter)
    }

    /// Returns the parameter to read.
    pub const fn get(&self) -> &T {
        &self.0
    }

    /// Returns the parameter to write to.
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Hides the values, so that no log or error message carries them.
impl<T> std::fmt::Debug for Private<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Private(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_changes_the_parameter_itself_and_not_a_clone_of_it() {
        let mut parameter = Private::new(vec![1.0_f32, 2.0]);
        let before = parameter.clone();
        parameter.get_mut()[1] = 3.0;
        assert_eq!(parameter.get(), &[1.0, 3.0]);
        assert_eq!(before.get(), &[1.0, 2.0]);
    }

    #[test]
    fn debug_output_does_not_show_the_values() {
        assert_eq!(format!("{:?}", Private::new(42)), "Private(..)");
    }
}
