//! Carries out the command `migrate`.

use super::args::MigrateArgs;
use super::output_file::write_file;
use crate::{Error, Result};
use fedrecsim_scenario::migrate::migrate as migrated;

/// Rewrites every file in which a key stands where it stood in an older version, and says which
/// keys have moved.
///
/// # Errors
/// [`Error::Read`] and [`Error::Write`] for a file that cannot be read or written, and
/// [`Error::Usage`] for one that is no TOML. Files before it have been rewritten then.
pub(crate) fn migrate(arguments: &MigrateArgs) -> Result<String> {
    let mut told = String::new();
    for path in &arguments.files {
        let text = std::fs::read_to_string(path).map_err(|reason| Error::read(path, reason))?;
        let name = path.display().to_string();
        let found = migrated(&text, &name)?;
        if found.moves.is_empty() {
            told.push_str(&format!("{name}: nothing to move\n"));
            continue;
        }
        write_file(path, found.text.as_bytes(), true)?;
        for moved in found.moves {
            told.push_str(&format!("{name}: {moved}\n"));
        }
    }
    Ok(told)
}
