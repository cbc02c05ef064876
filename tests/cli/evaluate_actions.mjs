// Evaluates an expression of GitHub Actions with GitHub's own evaluator, once for each context; prints one line each.
import { pathToFileURL } from "node:url";

const [modules, expression, ...contexts] = process.argv.slice(2);
const library = await import(pathToFileURL(`${modules}/@actions/expressions/dist/index.js`));
const { data, Evaluator, Lexer, Parser } = library;

const asData = (value) => {
  if (value === null || value === undefined) return new data.Null();
  if (typeof value === "string") return new data.StringData(value);
  return new data.Dictionary(
    ...Object.entries(value).map(([key, inner]) => ({ key, value: asData(inner) })),
  );
};
for (const text of contexts) {
  const tokens = new Lexer(expression).lex().tokens;
  const tree = new Parser(tokens, ["github"], []).parse();
  const context = asData({ github: JSON.parse(text) });
  console.log(new Evaluator(tree, context).evaluate().coerceString());
}
