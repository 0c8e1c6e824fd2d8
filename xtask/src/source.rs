//! A reader of Rust source that is just good enough for the checks of `tidy`.
//!
//! It owns one thing: telling code from comments and strings, and on top of that finding functions,
//! modules, macro calls and `#[cfg(test)]` items by their braces. It deliberately lacks a grammar: a
//! real parser throws comments away, and comments are what the rule check reads. Where it must guess,
//! it guesses towards seeing less, so that a check complains instead of passing silently.

use std::ops::Range;

/// One file, with its code and its comments told apart.
pub(crate) struct Source {
    /// The text with every comment, string and character literal blanked out, byte for byte.
    pub(crate) code: String,
    pub(crate) comments: Vec<Comment>,
    pub(crate) functions: Vec<Function>,
    pub(crate) modules: Vec<Module>,
    /// Where `include!("…")` names another file, with that name.
    pub(crate) includes: Vec<String>,
    /// The items that exist in test builds only.
    test_items: Vec<Range<usize>>,
}

/// A comment, line or block, documentation or not.
pub(crate) struct Comment {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// What it says, without the slashes of a line comment and without the space around.
    pub(crate) text: String,
}

/// A function with a body.
pub(crate) struct Function {
    pub(crate) name: String,
    /// From its first attribute to the end of its body.
    pub(crate) span: Range<usize>,
    /// Carries `#[test]`, `#[tokio::test]` or the like.
    pub(crate) is_test: bool,
    pub(crate) is_ignored: bool,
    /// Stands inside a macro call, which may turn it into a test.
    pub(crate) in_macro: bool,
}

/// A module declared here, whose text is in a file of its own.
pub(crate) struct Module {
    pub(crate) name: String,
    /// The inline modules around the declaration, outermost first.
    pub(crate) within: Vec<String>,
    /// The value of its `#[path = "…"]`.
    pub(crate) path: Option<String>,
    pub(crate) only_in_tests: bool,
}

impl Source {
    pub(crate) fn read(text: &str) -> Source {
        let (code, comments) = mask(text);
        let mut source = Source {
            code,
            comments,
            functions: Vec::new(),
            modules: Vec::new(),
            includes: Vec::new(),
            test_items: Vec::new(),
        };
        source.find_items(text);
        source
    }

    /// Whether this place belongs to an item under `#[cfg(test)]`.
    pub(crate) fn is_test_code(&self, at: usize) -> bool {
        self.test_items.iter().any(|item| item.contains(&at))
    }

    /// Every place at which `needle` stands in the code and is not the tail of a longer name.
    pub(crate) fn code_places<'a>(&'a self, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.code
            .match_indices(needle)
            .map(|(at, _)| at)
            .filter(|&at| !self.code[..at].ends_with(is_name_char))
    }

    /// How often `name` stands in the code as a whole word.
    pub(crate) fn count_of_name(&self, name: &str) -> usize {
        self.code_places(name).filter(|at| !self.code[at + name.len()..].starts_with(is_name_char)).count()
    }

    /// The function that a comment belongs to: the innermost around it that is a test, else the
    /// innermost around it, else the one that begins right below it.
    pub(crate) fn function_of(&self, comment: &Comment) -> Option<&Function> {
        let around = || {
            let around = self.functions.iter();
            around.filter(|function| function.span.contains(&comment.start))
        };
        let innermost = |function: &&Function| function.span.len();
        let below = || {
            self.functions.iter().find(|function| {
                comment.end <= function.span.start
                    && self.code[comment.end..function.span.start].trim().is_empty()
            })
        };
        around()
            .filter(|function| function.is_test)
            .min_by_key(innermost)
            .or_else(|| below().filter(|function| function.is_test))
            .or_else(|| around().min_by_key(innermost))
            .or_else(below)
    }

    fn find_items(&mut self, text: &str) {
        let code = std::mem::take(&mut self.code);
        let tokens = tokens(&code);
        let pairs = pairs(&tokens);
        let mut macros: Vec<Range<usize>> = Vec::new();
        let mut inline: Vec<(String, Range<usize>)> = Vec::new();
        // What stands before an item and belongs to it: attributes, visibility, `async` and the like.
        let mut lead: Option<usize> = None;
        let mut attributes: Vec<Range<usize>> = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            let token = &tokens[at];
            match token.text {
                "#" => {
                    let bang = tokens.get(at + 1).is_some_and(|next| next.text == "!");
                    let open = at + 1 + usize::from(bang);
                    if tokens.get(open).is_some_and(|next| next.text == "[") {
                        let close = pairs[open];
                        if !bang {
                            lead.get_or_insert(token.start);
                            attributes.push(token.start..tokens[close].end());
                        }
                        at = close + 1;
                        continue;
                    }
                }
                "pub" | "async" | "const" | "unsafe" | "extern" => {
                    lead.get_or_insert(token.start);
                }
                // `pub(crate)` and friends.
                "(" if at > 0 && tokens[at - 1].text == "pub" => {
                    at = pairs[at] + 1;
                    continue;
                }
                "!" if at > 0 && tokens[at - 1].is_name() => {
                    // `name! {`, and `macro_rules! name {`.
                    let named = tokens.get(at + 1).is_some_and(Token::is_name);
                    let open = at + 1 + usize::from(named);
                    if tokens.get(open).is_some_and(Token::opens) {
                        let span = tokens[open].start..tokens[pairs[open]].end();
                        match tokens[at - 1].text {
                            "macro_rules" => {}
                            "include" => self.includes.extend(first_string(&text[span])),
                            _ => macros.push(span),
                        }
                    }
                }
                keyword => {
                    let start = lead.take().unwrap_or(token.start);
                    let attributes = std::mem::take(&mut attributes);
                    let has = |wanted: &dyn Fn(&str) -> bool| {
                        attributes.iter().any(|range| wanted(&code[range.clone()]))
                    };
                    let only_in_tests = has(&is_test_only);
                    let end = item_end(&tokens, &pairs, at);
                    if only_in_tests {
                        self.test_items.push(start..end.map_or(code.len(), |end| tokens[end].end()));
                    }
                    let name = tokens.get(at + 1).filter(|next| next.is_name());
                    if let (Some(name), Some(end)) = (name, end) {
                        let has_body = tokens[end].text == "}";
                        if keyword == "fn" && has_body {
                            self.functions.push(Function {
                                name: name.text.to_owned(),
                                span: start..tokens[end].end(),
                                is_test: has(&|text| attribute_name(text) == "test"),
                                is_ignored: has(&|text| attribute_name(text) == "ignore"),
                                in_macro: macros.iter().any(|span| span.contains(&start)),
                            });
                        } else if keyword == "mod" && has_body {
                            inline.push((name.text.to_owned(), start..tokens[end].end()));
                        } else if keyword == "mod" {
                            let around = inline.iter().filter(|(_, span)| span.contains(&start));
                            let path = attributes
                                .iter()
                                .filter(|range| attribute_name(&code[(*range).clone()]) == "path")
                                .find_map(|range| first_string(&text[range.clone()]));
                            self.modules.push(Module {
                                name: name.text.to_owned(),
                                within: around.map(|(name, _)| name.clone()).collect(),
                                path,
                                only_in_tests: self.is_test_code(start),
                            });
                        }
                    }
                }
            }
            at += 1;
        }
        self.code = code;
    }
}

/// The line, counted from one, of a place in a text.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

pub(crate) fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Blanks comments, strings and character literals, and collects the comments.
fn mask(text: &str) -> (String, Vec<Comment>) {
    let bytes = text.as_bytes();
    let mut code = String::with_capacity(text.len());
    let mut comments = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let length = if rest.starts_with("//") {
            let length = rest.find('\n').unwrap_or(rest.len());
            comments.push(Comment {
                start: at,
                end: at + length,
                text: rest[..length].trim_start_matches(['/', '!']).trim().to_owned(),
            });
            length
        } else if rest.starts_with("/*") {
            let length = block_comment_length(rest);
            comments.push(Comment {
                start: at,
                end: at + length,
                text: rest[..length].trim_matches(['/', '*']).trim().to_owned(),
            });
            length
        } else if let Some(length) = raw_string_length(rest).filter(|_| !code.ends_with(is_name_char)) {
            length
        } else if rest.starts_with('"') {
            string_length(rest)
        } else if rest.starts_with('\'') {
            char_length(rest)
        } else {
            0
        };
        if length == 0 {
            let next = rest.chars().next().unwrap_or(' ');
            code.push(next);
            at += next.len_utf8();
        } else {
            let blank = |byte: u8| if byte == b'\n' { '\n' } else { ' ' };
            code.extend(rest[..length].bytes().map(blank));
            at += length;
        }
    }
    (code, comments)
}

fn block_comment_length(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        let tail = &rest.as_bytes()[at..];
        if tail.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn raw_string_length(rest: &str) -> Option<usize> {
    let raw = rest.strip_prefix(['b', 'c']).unwrap_or(rest).strip_prefix('r')?;
    let hashes = raw.len() - raw.trim_start_matches('#').len();
    let body = raw[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", &raw[..hashes]);
    let head = rest.len() - body.len();
    Some(body.find(&close).map_or(rest.len(), |end| head + end + close.len()))
}

fn string_length(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a character literal, or 0 for a lifetime.
fn char_length(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        // The character after the backslash may be a quote itself.
        Some((_, '\\')) => rest.get(3..).and_then(|tail| tail.find('\'')).map_or(rest.len(), |end| end + 4),
        Some(_) => match chars.next() {
            Some((at, '\'')) => at + 1,
            _ => 0,
        },
        None => 0,
    }
}

struct Token<'a> {
    start: usize,
    text: &'a str,
}

impl Token<'_> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }

    fn is_name(&self) -> bool {
        self.text.starts_with(is_name_char)
    }

    fn opens(&self) -> bool {
        matches!(self.text, "{" | "(" | "[")
    }
}

/// Names, and everything else one character at a time.
fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(next) = code[at..].chars().next() {
        let rest = &code[at..];
        let length = if is_name_char(next) {
            rest.find(|c| !is_name_char(c)).unwrap_or(rest.len())
        } else {
            next.len_utf8()
        };
        if !next.is_whitespace() {
            tokens.push(Token { start: at, text: &rest[..length] });
        }
        at += length;
    }
    tokens
}

/// For each token that opens, the index of the one that closes it; the last token if none does.
fn pairs(tokens: &[Token<'_>]) -> Vec<usize> {
    let mut pairs = vec![tokens.len().saturating_sub(1); tokens.len()];
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "{" | "(" | "[" => open.push(at),
            "}" | ")" | "]" => {
                if let Some(opened) = open.pop() {
                    pairs[opened] = at;
                }
            }
            _ => {}
        }
    }
    pairs
}

/// The token that ends the item whose keyword stands at `from`: its `;` or the end of its body.
fn item_end(tokens: &[Token<'_>], pairs: &[usize], from: usize) -> Option<usize> {
    let mut at = from;
    while at < tokens.len() {
        match tokens[at].text {
            ";" => return Some(at),
            "{" => return Some(pairs[at]),
            "(" | "[" => at = pairs[at],
            "}" | ")" | "]" => return None,
            _ => {}
        }
        at += 1;
    }
    None
}

/// The last segment of an attribute's path: `test` for `#[tokio::test(start_paused)]`.
fn attribute_name(attribute: &str) -> &str {
    let inner = attribute.trim_start_matches('#').trim_start().trim_start_matches('[');
    let path = inner.split(['(', ']', '=']).next().unwrap_or(inner).trim();
    path.rsplit("::").next().unwrap_or(path).trim()
}

/// `#[cfg(test)]` or a wider condition that names `test` and does not deny it.
fn is_test_only(attribute: &str) -> bool {
    let names_test = || attribute.split(|c| !is_name_char(c)).any(|word| word == "test");
    attribute_name(attribute) == "cfg" && names_test() && !attribute.contains("not(")
}

fn first_string(text: &str) -> Option<String> {
    let mut parts = text.split('"');
    parts.next()?;
    parts.next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code() {
        let text =
            "let a = \"// no\"; // yes\nlet b = '\"'; let c: &'static str = r#\"\"x\"#; /* in /* out */ */ d";
        let source = Source::read(text);
        assert_eq!(source.code.len(), text.len());
        let code: Vec<&str> = source.code.split_whitespace().collect();
        assert_eq!(code.join(" "), "let a = ; let b = ; let c: &'static str = ; d");
        let said: Vec<&str> = source.comments.iter().map(|comment| comment.text.as_str()).collect();
        assert_eq!(said, ["yes", "in /* out */"]);
    }

    #[test]
    fn escaped_quotes_and_wide_characters_end_where_they_end() {
        let source = Source::read(r#"a('\'', '\\', 'é', "\"", b'x', '\u{1F600}'); end"#);
        let code: Vec<&str> = source.code.split_whitespace().collect();
        assert_eq!(code.join(" "), "a( , , , , b , ); end");
    }

    #[test]
    fn functions_are_found_with_their_attributes() {
        let source = Source::read(
            "fn helper() {}\n\
             #[tokio::test(start_paused = true)]\nasync fn one() { let _ = || { 1 }; }\n\
             #[test]\n#[ignore = \"slow\"]\npub(crate) fn two() -> [u8; 3] { [0; 3] }\n\
             mount! { async fn three() {} }\n\
             trait T { fn bodiless(&self); }",
        );
        let found: Vec<_> =
            source.functions.iter().map(|f| (f.name.as_str(), f.is_test, f.is_ignored, f.in_macro)).collect();
        assert_eq!(
            found,
            [
                ("helper", false, false, false),
                ("one", true, false, false),
                ("two", true, true, false),
                ("three", false, false, true),
            ]
        );
    }

    #[test]
    fn modules_know_where_they_are_declared() {
        let source = Source::read(
            "mod a; pub mod outer { #[path = \"far/b.rs\"] mod b; }\n\
             #[cfg(test)] mod c; #[cfg(not(test))] mod d; mod inline { fn f() {} }",
        );
        let found: Vec<_> = source
            .modules
            .iter()
            .map(|m| (m.name.as_str(), m.within.join("/"), m.path.as_deref(), m.only_in_tests))
            .collect();
        assert_eq!(
            found,
            [
                ("a", String::new(), None, false),
                ("b", "outer".to_owned(), Some("far/b.rs"), false),
                ("c", String::new(), None, true),
                ("d", String::new(), None, false),
            ]
        );
    }

    #[test]
    fn code_under_cfg_test_is_told_apart() {
        let text = "#[cfg(test)]\nextern crate std;\nfn a() { x }\n#[cfg(all(test, audit))]\nmod tests { use y; }\nfn b() { z }";
        let source = Source::read(text);
        let is_test = |needle: &str| source.is_test_code(text.find(needle).unwrap());
        assert!(is_test("std"));
        assert!(!is_test("x }"));
        assert!(is_test("use y"));
        assert!(!is_test("z }"));
    }

    #[test]
    fn a_comment_belongs_to_the_test_around_it_or_below_it() {
        let source = Source::read(
            "// first\n#[test]\nfn above() {}\n\
             #[test]\n// second\nfn between() { fn helper() { /* third */ } }\n\
             // fourth\nstruct S;\nfn late() {}",
        );
        let names: Vec<_> = source
            .comments
            .iter()
            .map(|comment| source.function_of(comment).map(|f| f.name.as_str()))
            .collect();
        assert_eq!(names, [Some("above"), Some("between"), Some("between"), None]);
    }
}
