// Reads actions and workflows with GitHub's own parser; prints what it objects to, one line each.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [modules, ...paths] = process.argv.slice(2);
const library = (name) => import(pathToFileURL(`${modules}/@actions/workflow-parser/dist/${name}.js`));
const { NoOperationTraceWriter, convertWorkflowTemplate, parseWorkflow } = await library("index");
const { parseAction } = await library("actions/action-parser");
for (const path of paths) {
  const file = { name: path, content: readFileSync(path, "utf-8") };
  const trace = new NoOperationTraceWriter();
  const isAction = path.endsWith("action.yml");
  const result = isAction ? parseAction(file, trace) : parseWorkflow(file, trace);
  for (const error of result.context.errors.getErrors()) console.log(`${path}: ${error.message}`);
  if (!result.value) console.log(`${path}: nothing was read`);
  if (!isAction && result.value) {
    const template = await convertWorkflowTemplate(result.context, result.value);
    for (const error of template.errors ?? []) console.log(`${path}: ${error.Message ?? error.message}`);
  }
}
