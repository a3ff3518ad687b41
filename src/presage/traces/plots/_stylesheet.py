"""The look of the HTML page, by day and by night."""

from __future__ import annotations

from presage.traces.plots import _style

STYLESHEET = f"""\
:root {{
  --paper: {_style.PAPER}; --ground: #f4f6f9; --ink: {_style.INK}; --muted: {_style.MUTED};
  --faint: {_style.FAINT}; --blue: {_style.BLUE}; --orange: {_style.ORANGE}; --green: {_style.GREEN};
  --red: {_style.RED}; --sky: {_style.SKY}; --pink: {_style.PINK}; --grey: {_style.GREY};
}}
@media (prefers-color-scheme: dark) {{
  :root {{
    --paper: #171c23; --ground: #0f1318; --ink: #e8ecf1; --muted: #a5b1bf; --faint: #2b333d;
    --blue: #4ba8dd; --orange: #efb62c; --green: #2fbf95; --red: #f07f35;
    --sky: #8accf2; --pink: #dd9abf; --grey: #7d8997;
  }}
}}
* {{ box-sizing: border-box; }}
body {{
  margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}}
header, nav, main {{ max-width: 84rem; margin: 0 auto; padding: 0 1.25rem; }}
header {{ padding-top: 1.75rem; }}
h1 {{ margin: 0; font-size: 1.6rem; line-height: 1.25; overflow-wrap: anywhere; }}
header p {{ margin: 0.3rem 0 0; color: var(--muted); }}
h2 {{ margin: 0 0 0.5rem; font-size: 1.05rem; }}
nav {{ position: sticky; top: 0; z-index: 1; background: var(--ground); }}
nav ul {{
  display: flex; gap: 0.25rem 1.1rem; flex-wrap: wrap; list-style: none; margin: 0.9rem 0; padding: 0.6rem 0;
  border-bottom: 1px solid var(--faint);  font-size: 0.9rem;
}}
a {{ color: var(--blue); text-decoration: none; }}
a:hover, a:focus-visible {{ text-decoration: underline; }}
.figures {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }}
figure, section:not(.figures) {{
  margin: 0; padding: 1rem 1.1rem; background: var(--paper); border: 1px solid var(--faint); border-radius: 10px;
  scroll-margin-top: 4rem;
}}
figure.wide {{ grid-column: 1 / -1; }}
figure div {{ overflow-x: auto; }}
figure svg {{ display: block; width: 100%; height: auto; }}
figure.wide svg {{ min-width: 40rem; }}
figure svg * {{ stroke-linejoin: round; stroke-linecap: butt; }}
figure svg text {{ font-family: inherit !important; }}
figcaption {{ margin-top: 0.5rem; color: var(--muted); font-size: 0.9rem; }}
main > section + section {{ margin-top: 1rem; }}
main {{ padding-bottom: 3rem; }}
.tables {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 1.5rem; }}
table {{ width: 100%; border-collapse: collapse; align-self: start; font-size: 0.92rem; }}
caption {{ text-align: left; font-weight: 600; color: var(--muted); padding-bottom: 0.25rem; }}
tr {{ border-top: 1px solid var(--faint); }}
th {{ text-align: left; font-weight: 400; padding: 0.28rem 1rem 0.28rem 0; }}
thead th, thead td {{ text-align: right; font-weight: 600; padding: 0.28rem 0 0.28rem 1rem; }}
td {{ text-align: right; padding: 0.28rem 0; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }}
.unknown {{ color: var(--muted); opacity: 0.75; font-size: 0.85rem; }}
section > ul {{ margin: 0; padding-left: 1.2rem; }}
li {{ overflow-wrap: anywhere; }}
@media print {{ nav {{ display: none; }} figure, table {{ break-inside: avoid; }} }}
"""
