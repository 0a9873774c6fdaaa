//! Escapes text for Markdown.

/// Returns a text as Markdown that shows it: what stands in backquotes as code, and nothing else as
/// markup, whatever names are in it.
pub(crate) fn escaped(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let last = parts.len() - 1;
    let mut markdown = String::with_capacity(text.len());
    for (place, part) in parts.into_iter().enumerate() {
        let is_code = place % 2 == 1 && place < last;
        if place > 0 {
            // A last backquote without its partner is a letter.
            markdown += if place == last && place % 2 == 1 {
                "\\`"
            } else {
                "`"
            };
        }
        let mut before = ' ';
        let mut rest = part.chars();
        while let Some(letter) = rest.next() {
            let after = rest.clone().next().unwrap_or(' ');
            let is_markup = match letter {
                // The beginning of a tag, a comment or an address.
                '<' => after.is_ascii_alphabetic() || "/!?".contains(after),
                // The middle of a link or a picture.
                '(' | '[' | ':' => before == ']',
                // Emphasis, a line through, a formula.
                '*' | '~' | '$' => !before.is_whitespace() || !after.is_whitespace(),
                '&' => is_entity(rest.as_str()),
                '_' => !before.is_alphanumeric() || !after.is_alphanumeric(),
                '\\' => after.is_ascii_punctuation(),
                _ => false,
            };
            if is_markup && !is_code {
                markdown.push('\\');
            }
            // What commands a terminal on which the file is shown.
            match letter.is_control() && !"\n\t".contains(letter) {
                true => markdown.extend(letter.escape_default()),
                false => markdown.push(letter),
            }
            before = letter;
        }
    }
    markdown
}

/// Returns whether what stands behind a `&` makes a letter of both, as in `&lt;`.
fn is_entity(text: &str) -> bool {
    let name = text.split_once(';').map_or("", |(name, _)| name);
    let is_fit = |letter: char| letter.is_ascii_alphanumeric() || letter == '#';
    !name.is_empty() && name.chars().all(is_fit)
}

/// Returns a text that ends with a line break as a block of code.
pub(crate) fn fenced(language: &str, text: &str) -> String {
    // A fence in the text is a shorter one.
    let runs = text.split(|letter| letter != '`').map(str::len);
    let fence = "`".repeat(runs.max().map_or(3, |longest| 3.max(longest + 1)));
    format!("{fence}{language}\n{text}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, the name of a scenario or an arm is a link, a picture or HTML to whoever reads
    /// the report on the web, or plain text is littered with backslashes.
    #[test]
    fn only_what_stands_in_backquotes_is_markup() {
        for (text, markdown) in [
            ("<img src=x>", "\\<img src=x>"),
            ("</b><!-- x", "\\</b>\\<!-- x"),
            ("![a](http://x)", "![a]\\(http://x)"),
            ("[a]: http://x", "[a]\\: http://x"),
            ("*a* and _b_", "\\*a\\* and \\_b\\_"),
            ("the arm `<b>`", "the arm `<b>`"),
            ("the arm `a`<b>`", "the arm `a`\\<b>\\`"),
            ("a \\<b>", "a \\\\\\<b>"),
            (
                "p < 0.05, -0.02 * and a_b [0.1, 0.2]",
                "p < 0.05, -0.02 * and a_b [0.1, 0.2]",
            ),
            ("~~a~~ and $x$ for 5 $", "\\~\\~a\\~\\~ and \\$x\\$ for 5 $"),
            ("&lt;b&#62; & c; R&D", "\\&lt;b\\&#62; & c; R&D"),
            ("a\u{1b}[2J\nb", "a\\u{1b}[2J\nb"),
            ("", ""),
        ] {
            assert_eq!(escaped(text), markdown);
        }
    }

    #[test]
    fn a_fence_in_a_text_does_not_end_it() {
        assert_eq!(fenced("sh", "a\n"), "```sh\na\n```");
        assert_eq!(fenced("sh", "```\n<b>\n"), "````sh\n```\n<b>\n````");
    }
}
