//! The pages say what the files say.

/// The worked examples of the page about runtimes are the files that the tests run, without their headers.
#[test]
fn the_runtimes_on_the_page_are_those_that_are_tested() {
    let page = include_str!("../../../docs/runtimes.md");
    let files = [
        ("timer_thread.rs", include_str!("../src/timer_thread.rs")),
        ("embassy.rs", include_str!("../src/embassy.rs")),
    ];
    for (name, file) in files {
        let lines = file.lines().skip_while(|line| line.starts_with("//!"));
        let code: String = lines.flat_map(with_end).collect();
        assert!(
            page.contains(&format!("```rust\n{}```\n", code.trim_start_matches('\n'))),
            "docs/runtimes.md has another text of the example than tests/embedding/src/{name}"
        );
    }
}

fn with_end(line: &str) -> [&str; 2] {
    [line, "\n"]
}
