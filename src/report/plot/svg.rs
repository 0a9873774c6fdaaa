//! Completes an SVG document by what the drawing library leaves out: text for those who do not see the picture, and a
//! width that fits the page.

/// Returns the document with a title and a description, which screen readers read out, and with the style by which the
/// picture is never wider than the page that holds it.
pub fn complete(svg: &str, title: &str, description: &str) -> String {
    // The library begins every document with this element, and it has no attribute with the sign.
    let Some((opening, rest)) = svg.split_once('>') else { return svg.to_owned() };
    let (title, description) = (escaped(title), escaped(description));
    format!(
        "{opening} role=\"img\" style=\"max-width: 100%; height: auto\">\n<title>{title}</title>\n<desc>{description}</desc>{rest}"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_gets_a_title_a_description_and_a_style() {
        let svg = complete("<svg width=\"9\" viewBox=\"0 0 9 9\">\n<rect/>\n</svg>\n", "a < b", "c & d");
        let expected = "<svg width=\"9\" viewBox=\"0 0 9 9\" role=\"img\" style=\"max-width: 100%; height: auto\">\n\
                        <title>a &lt; b</title>\n<desc>c &amp; d</desc>\n<rect/>\n</svg>\n";
        assert_eq!(svg, expected);
    }
}
