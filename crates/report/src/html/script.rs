//! The charting library of a page, which the crate `plotly` carries.

use fedrecsim_core::{Error, Result};

/// Returns the refusal of a build that has no charting library.
pub(super) fn absent() -> Error {
    Error::without_feature("html", "makes report.html")
}

/// Checks that this build can make pages, before anything is done for one.
///
/// # Errors
/// [`Error::Usage`] in a build without the feature `html`.
pub(super) fn check() -> Result<()> {
    if cfg!(feature = "html") {
        Ok(())
    } else {
        Err(absent())
    }
}

/// Returns plotly.js.
///
/// # Errors
/// [`Error::Usage`] in a build without the feature `html`, and if the crate `plotly` has changed
/// how it carries the library.
#[cfg(feature = "html")]
pub(super) fn library() -> Result<String> {
    library_of(&plotly::Plot::offline_js_sources())
}

/// Returns plotly.js.
///
/// # Errors
/// [`Error::Usage`], always, in a build without the feature `html`.
#[cfg(not(feature = "html"))]
pub(super) fn library() -> Result<String> {
    Err(absent())
}

/// Returns plotly.js out of the script elements in `sources`, among which MathJax is as well. Pages
/// show no formulas.
#[cfg(any(feature = "html", test))]
fn library_of(sources: &str) -> Result<String> {
    let mut elements = sources.split("<script type=\"text/javascript\">").skip(1);
    let found = elements.find(|element| {
        element
            .get(..200)
            .unwrap_or(element)
            .contains("plotly.js v")
    });
    let script = found.and_then(|element| element.trim_end().strip_suffix("</script>"));
    match script {
        Some(script) if !script.contains("</script") => Ok(script.to_owned()),
        _ => Err(Error::Usage(
            "the crate `plotly` carries plotly.js in another way than this program expects; report.html cannot be made"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, a page has half a library, or another one, after an update of the crate.
    #[test]
    fn one_script_of_several_is_taken_whole_or_not_at_all() {
        let element = |text: &str| format!("<script type=\"text/javascript\">{text}</script>\n");
        let both = element("MathJax") + &element("/* plotly.js v3 */ x");
        assert_eq!(library_of(&both).unwrap(), "/* plotly.js v3 */ x");
        for changed in [
            element("MathJax"),
            both.replace("text/javascript", "module"),
            both.replace("</script>", ""),
        ] {
            let error = library_of(&changed).unwrap_err();
            assert!(error.to_string().contains("in another way"), "{error}");
        }
    }

    /// If this fails, a page does not work, or is so large that nobody keeps it.
    #[cfg(feature = "html")]
    #[test]
    fn the_library_is_there_without_the_one_for_formulas() {
        let library = library().unwrap();
        assert!(library.contains("plotly.js v"));
        assert!(library.len() < 5_000_000, "{} bytes", library.len());
    }
}
