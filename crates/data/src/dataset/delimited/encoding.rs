//! Guesses the encoding of text that is not UTF-8.

/// A usual encoding, whose text it is, and the bytes of the letters that are most frequent in it.
struct Encoding {
    name: &'static str,
    of: &'static str,
    frequent: &'static [u8],
    /// Whether whole words have no ASCII letter.
    has_own_letters: bool,
}

const ENCODINGS: [Encoding; 8] = [
    Encoding {
        name: "WINDOWS-1252",
        of: "Western Europe",
        frequent: b"\xe9\xe8\xea\xe1\xe0\xe2\xe3\xe4\xe5\xe6\xe7\xed\xf1\xf3\xf4\xf6\xf8\xfc\xdf\xc9\xd6\xdc\xc4\xc5\x92",
        has_own_letters: false,
    },
    Encoding {
        name: "MACINTOSH",
        of: "Western Europe",
        frequent: b"\x8e\x8f\x90\x87\x88\x89\x8a\x8b\x8c\x8d\x92\x96\x97\x99\x9a\x9f\xa7\xd5",
        has_own_letters: false,
    },
    Encoding {
        name: "CP850",
        of: "Western Europe",
        frequent: b"\x82\x8a\x88\xa0\x85\x83\x84\x86\x87\xa1\xa2\xa4\x93\x94\x81\xe1\x90\x99\x8e",
        has_own_letters: false,
    },
    Encoding {
        name: "WINDOWS-1250",
        of: "Central Europe",
        frequent: b"\xb3\x9c\xbf\xb9\xea\xf3\xe6\x9f\xa3\x9a\xec\xf8\x9e\xfd\xf9\xf2\xbe",
        has_own_letters: false,
    },
    Encoding {
        name: "WINDOWS-1251",
        of: "Russia and its neighbours",
        frequent: b"\xee\xe5\xe0\xe8\xed\xf2\xf1\xf0\xe2\xeb\xea\xec\xe4\xef\xf3",
        has_own_letters: true,
    },
    Encoding {
        name: "KOI8-R",
        of: "Russia",
        frequent: b"\xcf\xc5\xc1\xc9\xce\xd4\xd3\xd2\xd7\xcc\xcb\xcd\xc4\xd0\xd5",
        has_own_letters: true,
    },
    Encoding {
        name: "CP866",
        of: "Russia",
        frequent: b"\xae\xa5\xa0\xa8\xad\xe2\xe1\xe0\xa2\xab\xaa\xac\xa4\xaf\xe3",
        has_own_letters: true,
    },
    Encoding {
        name: "WINDOWS-1253",
        of: "Greece",
        frequent: b"\xe1\xef\xe9\xe5\xf4\xed\xf3\xf2\xf5\xf1\xeb\xec\xf0\xea\xdf\xdc\xdd\xfc",
        has_own_letters: true,
    },
];

/// Returns what to do with text that is not UTF-8: the encoding that its bytes fit best, if one fits
/// clearly better than all others, or how to find it out.
pub(super) fn advice(text: &[u8]) -> String {
    let high = text.iter().filter(|byte| !byte.is_ascii());
    // The letters behind others of their kind.
    let runs = text
        .windows(2)
        .filter(|two| !two[0].is_ascii() && !two[1].is_ascii());
    let (all, runs) = (high.clone().count(), runs.count());
    let has_own_letters = 2 * runs >= all;
    let fits = |encoding: &&Encoding| {
        let frequent = high.clone().filter(|byte| encoding.frequent.contains(byte));
        match encoding.has_own_letters == has_own_letters {
            true => frequent.count(),
            false => 0,
        }
    };
    let mut found: Vec<(usize, &Encoding)> =
        ENCODINGS.iter().map(|one| (fits(&one), one)).collect();
    found.sort_by_key(|(fits, _)| std::cmp::Reverse(*fits));
    let ((best, encoding), (second, _)) = (&found[0], &found[1]);
    // Asian texts have all bytes about as often.
    if 20 * best >= 13 * all && 5 * best > 6 * second {
        let Encoding { name, of, .. } = encoding;
        format!(
            "the letters seem to be of {of} ({name}): save the file as UTF-8, as with `iconv -f {name} -t UTF-8 FILE > \
             utf8.csv`, and look whether a name is right"
        )
    } else {
        "the encoding cannot be told from so few letters: `uchardet FILE` guesses it, and whoever wrote the file knows; \
         save the file as UTF-8, as with `iconv -f ENCODING -t UTF-8 FILE > utf8.csv`"
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, somebody is told to make other letters of the names.
    #[test]
    fn an_encoding_is_named_only_where_it_fits_best() {
        for (text, name) in [
            (&b"\xe9mile Caf\xe9 M\xfcller Stra\xdfe"[..], "WINDOWS-1252"),
            (b"Ocean\x92s Eleven, Am\xe9lie", "WINDOWS-1252"),
            (b"\x8emile Caf\x8e M\x9fller", "MACINTOSH"),
            (b"\x82mile Caf\x82 M\x81ller", "CP850"),
            (
                b"Micha\xb3 Wa\xb3\xeasa \x9cwiat ksi\xb9\xbfka",
                "WINDOWS-1250",
            ),
            (b"\xc2\xee\xe9\xed\xe0 \xe8 \xec\xe8\xf0", "WINDOWS-1251"),
            (b"\xf7\xcf\xca\xce\xc1 \xc9 \xcd\xc9\xd2", "KOI8-R"),
            (b"\x82\xae\xa9\xad\xa0 \xa8 \xac\xa8\xe0", "CP866"),
            (
                b"\xc1\xe8\xde\xed\xe1 \xea\xe1\xe9 \xef\xf5\xf1\xe1\xed\xfc\xf2",
                "WINDOWS-1253",
            ),
            // Czech, which looks like French and Danish.
            (b"Tom\xe1\x9a \xc8apek, Dvo\xf8\xe1k", "uchardet"),
            // Shift_JIS, GBK and Big5.
            (
                b"\x90\xe7\x82\xc6\x90\xe7\x90q\x82\xcc\x90_\x89B\x82\xb5",
                "uchardet",
            ),
            (
                b"\xc7\xa7\xd3\xeb\xc7\xa7\xd1\xb0 \xce\xd2\xb2\xbb\xca\xc7\xd2\xa9\xc9\xf1",
                "uchardet",
            ),
            (b"\xa4d\xbbP\xa4d\xb4M", "uchardet"),
            (b"\xff\xfe", "uchardet"),
        ] {
            let told = advice(text);
            assert!(told.contains(name), "{name}: {told}");
        }
    }
}
