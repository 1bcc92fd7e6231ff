"""Style and script of the panel of topics (`inference.markup.topic_panel`). All texts enter the page as text, never as HTML."""

from inference.markup.palette import colour

USUAL, CHOSEN, CORPUS = colour(0), colour(3), "#c4ccd2"  # a circle, the chosen one and its words, words of the whole corpus

TOPIC_STYLE = f"""
.tm{{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:0 2rem;align-items:start}}
.tm-map{{margin:0}}.tm-map svg{{display:block;width:100%;max-width:34rem;height:auto;border:1px solid var(--line)}}
.tm-axes{{stroke:var(--line);fill:none}}
.tm-topic circle{{fill:{USUAL};fill-opacity:.3;stroke:{USUAL};transition:r .15s}}
.tm-map text{{font-size:13px;text-anchor:middle;dominant-baseline:central;fill:var(--ink);
paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round;pointer-events:none}}
.tm-topic[role]{{cursor:pointer;outline:none}}
.tm-topic.on circle{{fill:{CHOSEN};fill-opacity:.5;stroke:{CHOSEN}}}.tm-map text.on{{font-weight:700}}
.tm-topic[aria-pressed=true] circle{{stroke-width:3}}
.tm-ring{{fill:none;stroke:{CHOSEN};stroke-width:2.5;pointer-events:none;transition:r .15s}}
.tm-topic:focus-visible circle{{stroke:var(--ink);stroke-width:3;stroke-dasharray:5 3}}
.tm-now{{display:block;min-height:3em;color:var(--ink)}}
.tm-words p{{margin:.2rem 0}}.tm-title{{font-weight:700}}
.tm-words label{{display:block}}.tm-words input{{width:100%;margin:.2rem 0;accent-color:{CHOSEN}}}
.tm-words input:focus-visible{{outline:3px solid var(--link);outline-offset:1px}}
.tm-ends{{display:flex;justify-content:space-between;gap:1rem;font-size:.8rem;color:var(--soft)}}
.tm-legend,.tm-hint{{font-size:.85rem;color:var(--soft)}}
.tm-legend span{{display:inline-block;width:1.4em;height:.75em;margin-left:.6em}}
.tm-legend span:first-child{{margin-left:0}}
.tm-own{{background:{CHOSEN}}}.tm-all{{background:{CORPUS}}}
.tm-bars{{list-style:none;margin:.4rem 0;padding:0}}
.tm-bars li{{display:grid;grid-template-columns:8.5rem minmax(0,1fr) 6.4rem;gap:0 .5rem;align-items:center;
font-size:.85rem;line-height:1.35;cursor:default}}
.tm-bars li:hover,.tm-bars li:focus{{background:var(--wash)}}.tm-bars li:focus-visible{{outline:2px solid var(--link)}}
.tm-bars b{{font-weight:400;text-align:right;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}}
.tm-bars li:hover b,.tm-bars li:focus b{{font-weight:700}}
.tm-bars svg{{display:block;width:100%;height:.8rem}}
.tm-bars .tm-back{{fill:{CORPUS}}}.tm-bars .tm-front{{fill:{CHOSEN}}}
.tm-bars i{{font-style:normal;color:var(--soft);font-variant-numeric:tabular-nums;white-space:nowrap;font-size:.8rem}}
.tm-grid{{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,21rem),1fr));gap:1rem}}
.tm-grid>div{{min-width:0}}.tm-grid td,.tm-grid th{{padding:.1rem .3rem}}.tm-grid tbody th{{font-weight:400;white-space:normal}}
@media (max-width:48rem){{.tm{{grid-template-columns:minmax(0,1fr)}}.tm-words{{margin-top:1rem}}
.tm-bars li{{grid-template-columns:7rem minmax(0,1fr) 6.4rem}}}}
@media print{{.tm-map circle{{transition:none}}
.tm-words input,.tm-hint,.tm-ends{{display:none}}.tm-map,.tm-words{{break-inside:avoid}}
.tm *{{print-color-adjust:exact;-webkit-print-color-adjust:exact}}}}
@media (prefers-reduced-motion:reduce){{.tm-map circle{{transition:none}}}}
"""

TOPIC_SCRIPT = """
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("tm-data").textContent);
  const part = name => document.querySelector(".tm-" + name);
  const circles = [...document.querySelectorAll(".tm-topic")];
  const slider = document.getElementById("tm-weight"), list = part("bars"), now = part("now");
  const labels = [...document.querySelectorAll(".tm-map text")], ring = part("ring");
  const radii = circles.map(topic => topic.querySelector("circle").getAttribute("r"));
  const most = Number(slider.dataset.most);
  const drawing = "http://www.w3.org/2000/svg";
  let kept = 0, shown = -1;
  const number = value => value >= 100 ? value.toFixed(0) : value.toFixed(1).replace(/\\.0$/, "");
  const top = topic => {
    const weight = Number(slider.value);
    const relevance = topic.words.map((word, place) =>
      Math.log(topic.probs[place]) - (1 - weight) * Math.log(data.count[word] / data.tokens));
    return topic.words.map((_, place) => place).sort((a, b) => relevance[b] - relevance[a]).slice(0, most);
  };
  const bar = (kind, length) => {
    const found = document.createElementNS(drawing, "rect");
    found.setAttribute("class", kind);
    found.setAttribute("width", length);
    found.setAttribute("height", kind === "tm-front" ? .6 : 1);
    found.setAttribute("y", kind === "tm-front" ? .2 : 0);
    return found;
  };
  const around = () => {
    const circle = circles[shown].querySelector("circle");
    for (const name of ["cx", "cy", "r"]) ring.setAttribute(name, circle.getAttribute(name));
  };
  const sizes = word => {
    const given = word === null ? null : new Map();
    if (given) for (let i = 0; i < data.given[word].length; i += 2) given.set(data.given[word][i], data.given[word][i + 1]);
    circles.forEach((topic, place) => {
      const radius = given ? data.whole * Math.sqrt(given.get(place) || 0) : radii[place];
      topic.querySelector("circle").setAttribute("r", radius);
    });
    around();
    now.textContent = given ? `Areas: probabilities of the topics, given the word “${data.words[word]}”.` : "";
  };
  // Of many parts only one is a stop of the tab key; the arrows go on to the others.
  const rove = (parts, event, before, after) => {
    const place = parts.indexOf(event.currentTarget);
    const steps = {[before]: place - 1, [after]: place + 1, Home: 0, End: parts.length - 1};
    if (!(event.key in steps)) return;
    event.preventDefault();
    const next = parts[Math.min(Math.max(steps[event.key], 0), parts.length - 1)];
    for (const other of parts) other.setAttribute("tabindex", other === next ? 0 : -1);
    next.focus();
  };
  const bars = () => {
    const topic = data.topics[shown], places = top(topic);
    const longest = Math.max(...places.map(place => data.count[topic.words[place]]));
    const rows = places.map((place, rank) => {
      const word = topic.words[place], all = data.count[word], own = all * topic.own[place];
      const row = document.createElement("li"), name = document.createElement("b"), figures = document.createElement("i");
      name.textContent = data.words[word];
      name.title = data.words[word];
      figures.textContent = `${number(own)} of ${number(all)}`;
      const picture = document.createElementNS(drawing, "svg");
      picture.setAttribute("viewBox", "0 0 1 1");
      picture.setAttribute("preserveAspectRatio", "none");
      picture.setAttribute("aria-hidden", "true");
      picture.append(bar("tm-back", all / longest), bar("tm-front", own / longest));
      row.tabIndex = rank ? -1 : 0;
      row.dataset.word = word;
      row.append(name, picture, figures);
      return row;
    });
    for (const row of rows) {
      const word = Number(row.dataset.word);
      for (const kind of ["mouseenter", "focus"]) row.addEventListener(kind, () => sizes(word));
      for (const kind of ["mouseleave", "blur"]) row.addEventListener(kind, () => sizes(null));
      row.addEventListener("keydown", event => rove(rows, event, "ArrowUp", "ArrowDown"));
    }
    list.replaceChildren(...rows);
  };
  const show = place => {
    if (place === shown) return;
    shown = place;
    circles.forEach((circle, other) => {
      for (const drawn of [circle, labels[other]]) drawn.classList.toggle("on", other === place);
    });
    around();
    const topic = data.topics[place];
    part("title").textContent = `Topic ${topic.name}: ${(100 * topic.share).toFixed(1)}% of the corpus`;
    bars();
  };
  const keep = place => {
    kept = place;
    circles.forEach((topic, other) => topic.setAttribute("aria-pressed", String(other === place)));
    show(place);
  };
  circles.forEach((topic, place) => {
    topic.setAttribute("role", "button");
    topic.setAttribute("tabindex", place ? -1 : 0);
    for (const kind of ["mouseenter", "focus"]) topic.addEventListener(kind, () => show(place));
    for (const kind of ["mouseleave", "blur"]) topic.addEventListener(kind, () => show(kept));
    topic.addEventListener("click", () => keep(place));
    topic.addEventListener("keydown", event => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); keep(place); }
      rove(circles, event, "ArrowLeft", "ArrowRight");
    });
  });
  document.querySelector(".tm-map svg").setAttribute("role", "group");
  slider.addEventListener("input", () => {
    part("words").querySelector("output").value = Number(slider.value).toFixed(2);
    bars();
  });
  part("words").hidden = false;
  part("tables").open = false;
  keep(0);
})();
"""
