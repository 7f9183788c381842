"""What this page has beyond the house's style."""

MORE_STYLE = """
h4{margin:.8rem 0 .2rem;font-size:.95rem}a{color:inherit}
table th:first-child{font-weight:400;color:var(--total)}thead th{font-weight:600}
td,th{overflow-wrap:anywhere;min-width:3.6rem}td:first-child{min-width:7.5rem}
.crossed td{text-align:center;color:#fff;padding:.2rem .6rem}.crossed td.unknown{color:var(--total)}
.worth0{background:#a61e1e}.worth1{background:#a8431c}.worth2{background:#96560f}.worth3{background:#7a6510}
.worth4{background:#4d7016}.worth5{background:#237032}
.axis{stroke:var(--line)}.way{fill:none;stroke-width:2}
.s0{stroke:#4c7fd0}.s1{stroke:#2b8a3e}.s2{stroke:#a8518a}.s3{stroke:#d9822b}.s4{stroke:#7950f2}.s5{stroke:#0b7285}
.f0{fill:#4c7fd0}.f1{fill:#2b8a3e}.f2{fill:#a8518a}.f3{fill:#d9822b}.f4{fill:#7950f2}.f5{fill:#0b7285}
.tried{fill-opacity:.45}.failed{fill:none;stroke:var(--over)}
@media(max-width:520px){main{padding:.8rem}}
""".strip()
