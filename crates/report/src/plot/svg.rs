//! Completes an SVG document by what the drawing library leaves out: text for those who do not see
//! the picture, a width that fits the page, and dashed lines.

/// A dashed stroke: its width, the lengths of dashes and gaps, and the offset of the pattern where
/// a line begins, all in pixels and below 100.
///
/// The library knows no dashes. It would draw every dash as a line of its own, which makes files
/// large, and would begin all lines with a dash, so that of two dashed lines that coincide one
/// would hide the other. A dashed line is therefore drawn with a [width](Self::code) that no line
/// has, and [`complete`] writes what is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dashes {
    pub width: u32,
    pub dash: u32,
    pub gap: u32,
    pub offset: u32,
}

/// The first number of the codes of dashed strokes. Nine digits are more than any real width has.
const CODE: u32 = 100_000_000;

impl Dashes {
    /// Returns the stroke width that stands for this stroke until [`complete`] replaces it.
    pub(crate) fn code(self) -> u32 {
        let Self {
            width,
            dash,
            gap,
            offset,
        } = self;
        [width, dash, gap, offset]
            .into_iter()
            .fold(1, |code, part| code * 100 + part.min(99))
    }

    fn of_code(code: u32) -> Self {
        let part = |place: u32| code / 100u32.pow(place) % 100;
        Self {
            width: part(3),
            dash: part(2),
            gap: part(1),
            offset: part(0),
        }
    }
}

/// Returns the document with a title and a description for screen readers, with a style that keeps
/// the picture no wider than its page, and with its dashed strokes.
pub(crate) fn complete(svg: &str, title: &str, description: &str) -> String {
    // The library begins every document with this element, and it has no attribute with the sign.
    let Some((opening, rest)) = svg.split_once('>') else {
        return svg.to_owned();
    };
    let (title, description) = (escaped(title), escaped(description));
    let rest = with_dashes(rest);
    format!(
        "{opening} role=\"img\" style=\"max-width: 100%; height: auto\">\n\
         <title>{title}</title>\n<desc>{description}</desc>{rest}"
    )
}

/// Replaces the widths that stand for dashed strokes.
fn with_dashes(svg: &str) -> String {
    const ATTRIBUTE: &str = "stroke-width=\"";
    let mut parts = svg.split(ATTRIBUTE);
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        whole.push_str(ATTRIBUTE);
        let code = part
            .split_once('"')
            .and_then(|(width, rest)| Some((width.parse::<u32>().ok()?, rest)));
        match code.filter(|(code, _)| *code >= CODE) {
            Some((code, rest)) => {
                let Dashes {
                    width,
                    dash,
                    gap,
                    offset,
                } = Dashes::of_code(code);
                let dashes = format!(
                    "{width}\" stroke-dasharray=\"{dash} {gap}\" stroke-dashoffset=\"{offset}\"{rest}"
                );
                whole.push_str(&dashes);
            }
            None => whole.push_str(part),
        }
    }
    whole
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_gets_a_title_a_description_and_a_style() {
        let svg = complete(
            "<svg width=\"9\" viewBox=\"0 0 9 9\">\n<rect/>\n</svg>\n",
            "a < b",
            "c & d",
        );
        let expected = "<svg width=\"9\" viewBox=\"0 0 9 9\" role=\"img\" style=\"max-width: 100%; height: auto\">\n\
                        <title>a &lt; b</title>\n<desc>c &amp; d</desc>\n<rect/>\n</svg>\n";
        assert_eq!(svg, expected);
    }

    #[test]
    fn dashed_strokes_are_written_out_and_others_stay() {
        let code = Dashes {
            width: 3,
            dash: 16,
            gap: 10,
            offset: 7,
        }
        .code();
        let svg = format!(
            "<svg>\n<a stroke-width=\"2\"/><b stroke-width=\"{code}\" points=\"1,2\"/>\n</svg>\n"
        );
        let dashed = "<b stroke-width=\"3\" stroke-dasharray=\"16 10\" stroke-dashoffset=\"7\" points=\"1,2\"/>";
        assert!(
            complete(&svg, "", "").contains(&format!("<a stroke-width=\"2\"/>{dashed}")),
            "{svg}"
        );
    }
}
