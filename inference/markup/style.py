"""The stylesheet of a page: for screens from 400 pixels on, and for paper."""

STYLE = """
*{box-sizing:border-box}
:root{--ink:#222;--soft:#5a5a5a;--line:#ddd;--wash:#f6f6f4;--link:#0072B2}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);margin:0;overflow-wrap:anywhere}
main,footer{max-width:64rem;margin:0 auto;padding:0 1rem}
main{padding-top:1rem;padding-bottom:2rem}
h1{font-size:1.6rem;margin:.5rem 0}h2{font-size:1.25rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:0}
a{color:var(--link)}
.verdict{font-size:1.1rem;font-weight:600;padding:.6rem .9rem;border-left:.4rem solid;background:var(--wash);margin:.5rem 0}
.sound{border-color:#009E73}.doubt{border-color:#D55E00}.problems{color:#8a2f00;font-weight:600}
nav ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.1rem 1rem;font-size:.9rem}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,17rem),1fr));gap:.8rem}
.card{border:1px solid var(--line);border-top:.35rem solid var(--own);padding:.6rem .8rem;border-radius:.3rem}
.card ul{margin:.4rem 0;padding-left:1.1rem;font-size:.92rem}.card p{margin:.2rem 0}.size{font-weight:600}
.bar{background:var(--line);height:.4rem;border-radius:.2rem}
.bar span{display:block;height:100%;background:var(--own);border-radius:.2rem}
.scroll{overflow-x:auto;max-width:100%;margin:.5rem 0}
.scroll:focus-visible,summary:focus-visible,button:focus-visible,a:focus-visible
{outline:3px solid var(--link);outline-offset:1px}
table{border-collapse:collapse;font-size:.85rem}
caption{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
td,th{padding:.15rem .7rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
td{font-variant-numeric:tabular-nums}
th:first-child,td.words,th.words{text-align:left}td.words{white-space:normal;min-width:16rem}
thead th{border-bottom:2px solid var(--ink)}
thead button{font:inherit;font-weight:700;border:0;background:none;padding:0;cursor:pointer;color:inherit}
thead [aria-sort=ascending] button::after{content:" \\25B2"}thead [aria-sort=descending] button::after{content:" \\25BC"}
.choose{font:inherit;font-size:.85rem;border:1px solid var(--line);background:#fff;border-radius:.3rem;cursor:pointer}
.choose[aria-pressed=true]{background:var(--own);border-color:var(--own);color:#fff}
.faint{opacity:.13}
figure{margin:1rem 0}figcaption{font-size:.92rem;color:var(--soft)}
figure img{display:block;max-width:100%;height:auto}
details{border:1px solid var(--line);border-radius:.3rem;padding:.4rem .8rem;margin:.5rem 0}
summary{cursor:pointer;font-weight:600}
dt{font-weight:600}dd{margin:0 0 .5rem 1rem}
pre{background:var(--wash);padding:.8rem;overflow-x:auto;font-size:.85rem}
footer{color:var(--soft);font-size:.85rem;padding-bottom:2rem}
@media (max-width:40rem){figure img{max-width:none}figcaption::before{content:"Move the picture sideways to see all of it. "}}
@media print{body{font-size:10pt}nav,.choose{display:none}.scroll{overflow:visible}figure,.card,tr{break-inside:avoid}
h2{break-after:avoid}figure img{max-width:100%}pre{white-space:pre-wrap}details{border:0;padding:0}}
"""
