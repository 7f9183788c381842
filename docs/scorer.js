/* How search results are ranked: a name of the reference comes before pages that mention it, measurements come last. */
var Scorer = {
  score: ([docname, title, anchor, descr, score, filename, kind]) => {
    const query = (new URLSearchParams(window.location.search).get("q") || "").trim();
    const named = kind === "object" && [query, `vk.${query}`, `vkernels.${query}`].includes(title);
    if (named) return score + 1000;
    return docname.startsWith("measurements/") ? score - 1000 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
