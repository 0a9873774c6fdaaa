#![allow(clippy::unwrap_used)]
use super::*;

/// If this fails, a page asks the network for something, or a browser lets it.
#[test]
fn a_page_is_one_file_and_the_policy_forbids_everything_else() {
    let page = Document {
        title: "t".to_owned(),
        blocks: vec![Block::text("`a`")],
        ..Document::default()
    };
    let html = render(&page).unwrap();
    for tag in [
        " src=", "<link", "<iframe", "<img", "@import", "url(", "http:", "https:",
    ] {
        assert!(!html.contains(tag), "{tag}");
    }
    assert!(
        html.contains(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        )
    );
    assert!(html.ends_with("</html>\n") && html.len() < 100_000);
    assert_eq!(
        html,
        render(&page).unwrap(),
        "the same page differs from itself"
    );
}

/// If this fails, the first thing that a reader sees is not the answer, or a section in which nothing
/// happened takes the room of others.
#[test]
fn the_answer_is_the_heading_and_quiet_sections_are_folded() {
    let page = Document {
        title: "t".to_owned(),
        answer: "a wins".to_owned(),
        blocks: vec![
            Block::Quiet("nothing".to_owned()),
            Block::text("none"),
            Block::heading("much"),
        ],
    };
    let html = render(&page).unwrap();
    for part in [
        "<p class=\"over\">t</p>\n<h1>a wins</h1>",
        "<details class=\"quiet\"><summary><h2>nothing</h2></summary>\n<p>none</p>\n</details>\n<h2>much</h2>",
    ] {
        assert!(html.contains(part), "no {part} in {html}");
    }
}

/// Returns the relative luminance of a colour, by WCAG 2.2.
fn luminance(hex: &str) -> f64 {
    let channel = |place: usize| {
        let value = f64::from(u8::from_str_radix(&hex[place..place + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

fn contrast(one: &str, other: &str) -> f64 {
    let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
    one.max(other) / one.min(other)
}

/// If this fails, a text or a line of a chart can hardly be seen in one of the colour schemes.
#[test]
fn contrasts_hold_in_both_colour_schemes() {
    // A scheme begins with the background.
    let schemes: Vec<&str> = STYLE
        .split("--bg:")
        .skip(1)
        .map(|rest| rest.split('}').next().unwrap())
        .collect();
    assert_eq!(schemes.len(), 3);
    assert_eq!(
        schemes[1].replace([' ', '\n'], ""),
        schemes[2].replace([' ', '\n'], ""),
        "the button shows other colours"
    );
    for scheme in schemes {
        let text = format!("--bg:{scheme}");
        let color = |name: &str| {
            let rest = text
                .split(&format!("--{name}:"))
                .nth(1)
                .unwrap_or_else(|| panic!("no {name}"));
            rest.trim_start()[..7].to_owned()
        };
        for (name, least) in [
            ("text", 7.0),
            ("muted", 4.5),
            ("accent", 4.5),
            ("note", 4.5),
        ] {
            for ground in ["bg", "surface"] {
                let found = contrast(&color(name), &color(ground));
                assert!(found >= least, "{name} on {ground}: {found:.2}");
            }
        }
        for line in 0..8 {
            let found = contrast(&color(&format!("c{line}")), &color("bg"));
            assert!(found >= 3.0, "c{line}: {found:.2}");
        }
    }
}
