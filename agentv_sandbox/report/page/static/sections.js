// What is known of one test or trial, part by part; what fails comes first.

/** @param {any} details @param {Entry} entry @returns {Child[]} */
function testSections(details, entry) {
  if (details.note) return [el("p", { class: "reason" }, details.note)];
  return [
    details.error && el("div", { class: "reason" }, el("strong", {}, datum([details.stage, details.cause && `(${details.cause})`].filter(Boolean).join(" "))), pre(details.error, "Error")),
    details.notes.length > 0 && part("Limits and notes", el("ul", {}, details.notes.map((/** @type {string} */ note) => el("li", {}, datum(note))))),
    refusals(details.network),
    details.graders.length > 0 && part("Graders", [...details.graders].sort((a, b) => stateOrder(a) - stateOrder(b)).map((grader) => graderView(grader, details.prompts))),
    answerPart(details),
    details.files.length > 0 && part(`Files (${details.files.length})`, details.files.map(fileView)),
    details.skipped.length > 0 && part("Not collected", table(["file", "why"], details.skipped.map((/** @type {string[]} */ row) => row.map((text) => datum(text))), "Not collected")),
    details.diff && part("Changes in the workspace", diffView(details.diff)),
    details.input && part("Prompt", pre(details.input, "Prompt", "prose")),
    details.messages.length > 0 && part("Conversation", conversation(details.messages)),
    details.timeline.length > 0 && part("Timeline", timeline(details.timeline)),
    details.model_calls.length > 0 && part("Model calls", modelCalls(details.model_calls)),
    details.network.length > 0 && part("Network", fold(`All ${counted(details.network.length, "request")}`, () => networkTable(details.network))),
    details.prompts.length > 0 && part("What graders asked", details.prompts.map(promptView)),
    details.logs.length > 0 && part("Logs", details.logs.map((/** @type {[string, string]} */ [title, text]) => fold(title, () => pre(text, title)))),
    part("Made in", el("dl", { class: "facts" }, [...details.facts, ["files", details.folder]].filter(([, value]) => value).flatMap(([name, value]) => [
      el("dt", {}, datum(name)), el("dd", {}, value.includes("\n") ? pre(value, name) : datum(value))]))),
    entry.verdict === "pass" && !details.graders.length && el("p", { class: "soft" }, "No grader looked at this test."),
  ];
}

/** @param {any} grader */
const stateOrder = (grader) => ["error", "fail", "pass"].indexOf(grader.state);

/** @param {any} grader @param {any[]} prompts @param {string} [prefix] @returns {HTMLElement} */
function graderView(grader, prompts, prefix = "") {
  const facts = [grader.type, `score ${score(grader.score)}`, grader.weight !== 1 && `weight ${fixed(grader.weight, 1)}`, grader.target, grader.seconds && duration(grader.seconds), grader.cost && dollars(grader.cost)];
  const asked = prompts.filter((prompt) => prompt.grader === prefix + grader.name);
  return el("div", { class: `grader ${grader.state}` },
    el("header", {}, badge(grader.state), " ", datum(grader.name, "strong"), el("span", { class: "soft" }, facts.filter(Boolean).flatMap((fact) => [" · ", datum(String(fact))]))),
    grader.error && el("p", { class: "reason" }, datum(grader.error)),
    grader.agents_word.length > 0 && el("p", { class: "soft" }, `Rests on the agent's own word: ${grader.agents_word.join(", ")}.`),
    grader.reasoning && el("p", { class: "said" }, datum(grader.reasoning)),
    grader.checks.length > 0 && el("ul", { class: "checks" }, grader.checks.map((/** @type {any} */ check) =>
      el("li", { class: check.passed ? "yes" : "no" }, el("span", { class: "visually-hidden" }, check.passed ? "passed: " : "failed: "), datum(check.text), check.evidence && el("div", { class: "evidence" }, datum(check.evidence))))),
    grader.details && fold("Details", () => pre(grader.details, "Details")),
    asked.map((prompt) => fold("Its prompt and the reply", () => [pre(prompt.request, "Prompt"), prompt.reply && pre(prompt.reply, "Reply")])),
    grader.members.map((/** @type {any} */ member) => graderView(member, prompts, `${prefix}${grader.name}.`)));
}

/** @param {any} prompt */
function promptView(prompt) {
  const note = el("span", { class: "soft" }, [prompt.target && datum(` ${prompt.target}`), prompt.cost !== null && ` ${dollars(prompt.cost)}`]);
  return fold(prompt.grader, () => [el("h4", {}, "Asked"), pre(prompt.request, "Asked"), prompt.reply && [el("h4", {}, "Answered"), pre(prompt.reply, "Answered")]].flat(), false, note);
}

/** The answer beside what was expected. @param {any} details @returns {Child} */
function answerPart(details) {
  const asked = details.asked || {};
  const expected = [
    asked.criteria && el("div", {}, el("h4", {}, "Criteria"), prose(asked.criteria, "Criteria")),
    asked.expected && el("div", {}, el("h4", {}, "Expected"), prose(asked.expected, "Expected")),
    asked.files?.length > 0 && el("div", {}, el("h4", {}, "Input files"), el("ul", {}, asked.files.map((/** @type {string} */ name) => el("li", {}, el("code", {}, datum(name)))))),
  ].filter(Boolean);
  if (!details.answer && !expected.length) return null;
  const answer = el("div", {}, expected.length > 0 && el("h4", {}, ["Answer", asked.target && [" of ", datum(asked.target)]].flat(2)), details.answer ? prose(details.answer, "Answer") : el("p", { class: "soft" }, "There is no answer."));
  return part(expected.length ? "Answer and what was expected" : "Answer", el("div", { class: expected.length ? "side-by-side" : null }, answer, expected.length > 0 && el("div", {}, expected)));
}

/** Each step of a conversation in a line that leads to it. @param {any[]} messages @param {HTMLElement} talk */
function outline(messages, talk) {
  return fold("Outline", () => el("ol", { class: "outline" }, messages.map((message, n) => {
    const tools = message.calls.map((/** @type {any} */ call) => call.tool).join(", ");
    const words = message.text.replace(/\s+/g, " ").slice(0, 80);
    return el("li", {}, button(`${message.role || "…"}: ${[words, tools && `[${tools}]`].filter(Boolean).join(" ")}`, () => {
      const place = /** @type {HTMLElement} */ (talk.children[n]);
      place.scrollIntoView({ block: "center" });
      place.focus({ preventScroll: true });
    }, { class: "outline-step" }));
  })), messages.length > 6);
}

/** @param {any[]} messages @returns {Child[]} */
function conversation(messages) {
  const talk = talkOf(messages);
  return [messages.length > 2 && outline(messages, talk), talk];
}

/** @param {any[]} messages */
function talkOf(messages) {
  return el("ol", { class: "talk" }, messages.map((message) => {
    const long = message.text.length > 1500;
    return el("li", { tabindex: "-1", class: `message ${["user", "assistant", "tool", "system"].includes(message.role) ? message.role : "other"}` },
      message.role && el("div", { class: "role" }, datum(message.role)),
      message.text && (long ? fold(`${message.text.slice(0, 200).replace(/\s+/g, " ")}…`, () => pre(message.text, "Message")) : prose(message.text, "Message")),
      message.calls.map(toolCall));
  }));
}

/** @param {any} call */
function toolCall(call) {
  const failed = call.status && call.status !== "ok" && call.status !== "success" && call.status !== "completed";
  const brief = call.input.replace(/\s+/g, " ").slice(0, 90);
  const mark = !call.asked ? " · no model asked for it: it does not count" : !call.reported ? " · not reported by the agent" : "";
  const note = el("span", { class: failed || mark ? "failed" : "soft" }, " ", datum(brief), mark, failed && [" · ", datum(call.status)], call.ms !== null && ` · ${duration(call.ms / 1000)}`);
  const details = fold(call.tool, () => [call.input && pre(call.input, "Input"), call.output && pre(call.output, "Output"), !call.input && !call.output && "Nothing else is known of this call."], false, note);
  details.classList.add("call");
  return details;
}

/** @param {[string, string, number, number][]} spans */
function timeline(spans) {
  const whole = Math.max(...spans.map(([, , start, length]) => start + length), 0.001);
  return el("ol", { class: "timeline" }, spans.map(([name, kind, start, length]) => {
    const bar = el("span", { class: `span t-${kind}` });
    bar.style.left = `${(start / whole) * 100}%`;
    bar.style.width = `${Math.max((length / whole) * 100, 0.4)}%`;
    return el("li", {}, datum(name, "span-name"), el("span", { class: "lane", "aria-hidden": "true" }, bar), el("span", { class: "span-time" }, duration(length), el("span", { class: "visually-hidden" }, `, from ${duration(start)}`)));
  }));
}

/** @param {any[][]} calls */
function modelCalls(calls) {
  const sum = (/** @type {number} */ n) => calls.reduce((all, call) => all + (typeof call[n] === "number" ? call[n] : 0), 0);
  const rows = calls.map(([time, model, input, output, cost, status, seconds]) => [datum(time), datum(model), count(input), count(output), dollars(cost), fixed(status, 0), duration(seconds)]);
  return [
    el("p", { class: "soft" }, `${counted(calls.length, "call")}, ${count(sum(2))} tokens in, ${count(sum(3))} out, ${dollars(sum(4))}`),
    fold("As logged", () => calls.filter((call) => call[7]).map((call) => fold(`${call[0]} ${call[1]}`, () => pre(call[7], "Model call")))),
    fold("Each call", () => table(["time", "model", "tokens in#", "out#", "cost#", "status#", "took#"], rows, "Model calls"), calls.length <= 12),
  ];
}

/** @param {any[][]} network */
const networkTable = (network) => table(["time", "request", "decision", "why", "status#"], network.map(([time, what, decision, why, status]) => [datum(time), datum(what), datum(decision), datum(why), status === null ? "–" : String(status)]), "Network");

/** @param {any[][]} network @returns {Child} */
function refusals(network) {
  const refused = network.filter(([, , decision]) => decision === "refused");
  return refused.length > 0 && part(`Refused by the network (${refused.length})`, networkTable(refused));
}
