//! Text that is safe on a terminal, and its width there.

/// `text` without what a terminal would act upon: control characters and marks that turn the
/// direction of writing are shown as their code, line ends become spaces.
pub fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => cleaned.push(' '),
            c if c.is_control() || is_invisible(c) => cleaned.extend(c.escape_unicode()),
            c => cleaned.push(c),
        }
    }
    cleaned
}

/// Marks without a glyph, most of which turn the direction of writing (Unicode annex 9).
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Columns that `text` takes.
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// East Asian wide characters and emoji take two columns (Unicode annex 11, coarsely).
fn char_width(c: char) -> usize {
    let wide = matches!(u32::from(c),
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f
        | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f000..=0x1faff | 0x20000..=0x3fffd);
    if wide { 2 } else { 1 }
}

/// `text` filled up with spaces to `columns`, on the left for numbers.
pub fn pad(text: &str, columns: usize, to_the_right: bool) -> String {
    let spaces = " ".repeat(columns.saturating_sub(width(text)));
    if to_the_right { format!("{spaces}{text}") } else { format!("{text}{spaces}") }
}

/// `text`, cleaned, in lines of at most `columns` that all begin with `indent` but the first, which
/// begins with `first`. A word that is too long is cut.
pub fn wrap(text: &str, columns: usize, first: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut is_begun = false;
    for word in words(&clean(text)) {
        for piece in pieces(&word, columns.saturating_sub(width(indent).max(width(first))).max(2)) {
            if is_begun && width(&line) + 1 + width(&piece) > columns {
                lines.push_str(line.trim_end());
                lines.push('\n');
                line = indent.to_owned();
                is_begun = false;
            }
            if is_begun {
                line.push(' ');
            }
            line.push_str(&piece);
            is_begun = true;
        }
    }
    lines.push_str(line.trim_end());
    lines.push('\n');
    lines
}

/// The words of `text`; a unit stays with its number.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_end_matches([',', ';', '.', ':']);
        let is_unit =
            word.starts_with('%') || word.contains("bit/s") || bare.ends_with("/s") || bare == "µs";
        match words.last_mut() {
            Some(number) if is_unit => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// `text` cut to `columns`, with an ellipsis where something is missing.
pub fn clip(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut clipped = String::new();
    for c in text.chars() {
        if width(&clipped) + char_width(c) >= columns {
            break;
        }
        clipped.push(c);
    }
    clipped + "…"
}

/// `word` in pieces of at most `columns` (at least 2).
fn pieces(word: &str, columns: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for c in word.chars() {
        if used + char_width(c) > columns {
            pieces.push(String::new());
            used = 0;
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(c);
        }
        used += char_width(c);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_acts_upon_passes() {
        let hostile = "a\u{1b}[31mred\u{7}\u{202e}\u{9b}2J\r\nb";
        assert_eq!(clean(hostile), "a\\u{1b}[31mred\\u{7}\\u{202e}\\u{9b}2J  b");
    }

    #[test]
    fn lines_hold_their_width() {
        let text = "one two three ".repeat(20) + &"x".repeat(200) + " 漢字漢字漢字 end";
        for columns in [10, 33, 80] {
            let wrapped = wrap(&text, columns, "- ", "  ");
            assert!(wrapped.lines().all(|line| width(line) <= columns), "{wrapped}");
        }
    }
}
