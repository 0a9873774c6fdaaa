//! Escapes text for HTML, and values for a script block within it.

use serde::Serialize;

/// Returns `text` as HTML text, which may also stand in an attribute in double quotation marks.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// Returns `text` as HTML, with what stands in backquotes as code.
pub(crate) fn with_code(text: &str) -> String {
    let mut html = String::new();
    for (place, part) in text.split('`').enumerate() {
        let part = escaped(part);
        html.push_str(&if place % 2 == 1 {
            format!("<code>{part}</code>")
        } else {
            part
        });
    }
    html
}

/// Returns `value` as JSON that may stand in a script element: nothing in it ends the element or
/// begins a comment.
///
/// # Errors
/// Those of the serialization, which none of this crate's types gives.
pub(crate) fn json_in_script(value: &impl Serialize) -> serde_json::Result<String> {
    // These characters occur in strings alone, where JSON may write them as numbers.
    let text = serde_json::to_string(value)?;
    Ok(text
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, the name of a method or an arm runs as markup or as a script in a browser.
    #[test]
    fn markup_stays_text_wherever_it_stands() {
        assert_eq!(
            escaped("</b> \"a\" & 'b'"),
            "&lt;/b&gt; &quot;a&quot; &amp; &#39;b&#39;"
        );
        assert_eq!(
            with_code("the arm `a<b>`"),
            "the arm <code>a&lt;b&gt;</code>"
        );
        let json = json_in_script(&["</script><!-- & "]).unwrap();
        assert!(!json.contains(['<', '>', '&']), "{json}");
        assert_eq!(
            serde_json::from_str::<Vec<String>>(&json).unwrap(),
            ["</script><!-- & "]
        );
    }
}
