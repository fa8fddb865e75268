# Prints C source with comments and the insides of string and character literals blanked out, so that
# a line-by-line search sees code only. Lines keep their numbers. State carries over line ends.
FNR == 1 { in_comment = 0 }
{
    line = $0; out = ""
    if (!in_comment && line !~ /["'\/]/) { print line; next }
    n = length(line); i = 1
    while (i <= n) {
        if (in_comment) {
            end = index(substr(line, i), "*/")
            if (end == 0) break
            i += end + 1; in_comment = 0; out = out " "
            continue
        }
        c = substr(line, i, 1); two = substr(line, i, 2)
        if (two == "/*") { in_comment = 1; i += 2; continue }
        if (two == "//") break
        if (c == "\"" || c == "'") {
            for (j = i + 1; j <= n && substr(line, j, 1) != c; j++)
                if (substr(line, j, 1) == "\\") j++
            out = out c c; i = j + 1
            continue
        }
        out = out c; i++
    }
    print out
}
