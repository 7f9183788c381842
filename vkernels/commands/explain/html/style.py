"""How the page looks, by day and by night."""

STYLE = """
:root{--ink:#1b1f24;--paper:#fff;--soft:#f1f3f5;--line:#ced4da;--need:#4c7fd0;--over:#c92a2a;--hot:#d9822b;--total:#495057}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8ea;--paper:#15181b;--soft:#23282d;--line:#495057;--total:#adb5bd}}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:860px;margin:0 auto;padding:1.5rem}
h1{font-size:1.5rem;overflow-wrap:anywhere}h2{margin-top:2.5rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1.2rem 0 .2rem;overflow-wrap:anywhere}
.about{color:var(--total)}.well{font-weight:600}.bad{font-weight:600;color:var(--over)}
table{border-collapse:collapse;font-size:.85rem;margin:.6rem 0;display:block;overflow-x:auto}
th,td{text-align:left;padding:.2rem .7rem .2rem 0;vertical-align:top;border-bottom:1px solid var(--soft)}
.source td{border:0;padding:0 .7rem 0 0}.number{color:var(--total);text-align:right}
.code,pre{font-family:ui-monospace,monospace;font-size:.8rem;white-space:pre}
pre{background:var(--soft);padding:.8rem;overflow-x:auto;max-height:40rem}
.phase{font-size:.75rem;border-radius:3px;padding:0 .4em;margin-right:.3em;color:#fff}
.p0{background:#4c7fd0}.p1{background:#2b8a3e}.p2{background:#a8518a}.p3{background:#b8631b}.p4{background:#5f3dc4}
.p5{background:#0b7285}
svg{width:100%;height:auto;display:block;margin:.6rem 0}svg text{font-size:12px;fill:var(--ink)}
svg .head{font-weight:600}svg .small{font-size:11px}
.room{fill:var(--soft)}.need{fill:var(--need)}.over{fill:var(--over)}.bottleneck{fill:var(--hot)}.total{fill:var(--total)}
.column{fill:var(--soft)}.limit{stroke:var(--over);stroke-dasharray:4 3}
.home{fill-opacity:.45}.registers{fill:#2b8a3e}.shared{fill:#4c7fd0}.recompute{fill:#adb5bd}.memory{fill:#d9822b}
details{margin:.3rem 0}summary{cursor:pointer}
""".strip()
