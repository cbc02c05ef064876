// A client of the protocol's own package: says what a server answered, as one line of JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const transport = new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
const said = { server: client.getServerVersion().name };
said.tools = (await client.listTools()).tools.map((tool) => tool.name);
const call = async (name, given) => {
  const done = await client.callTool({ name, arguments: given }, undefined, { timeout: 60000 });
  return [done.isError, done.content[0].text];
};
said.write = await call("write", { path: "in/data.txt", content: "three\n" });
said.exec = await call("exec", { command: "cat in/data.txt; id -u; exit 3" });
said.stdin = await call("exec", { command: "cat", stdin: "given" });
said.read = await call("read", { path: "in/data.txt" });
said.list = await call("list", { path: "in" });
await call("exec", { command: "mkdir odd; touch \"odd/$(printf 'a\\n-rw-r--r-- 1 forged')\"" });
said.odd = await call("list", { path: "odd" });
said.missing = await call("read", { path: "nothing" });
said.late = await call("exec", { command: "sleep 60", timeout: 0.3 });
said.network = await call("exec", { command: "getent hosts example.com || echo sealed; env | sort | cut -d= -f1 | tr '\\n' ' '" });
const beside = [call("exec", { command: "sleep 1; echo slow" }), call("exec", { command: "echo fast" })];
said.first = (await Promise.race(beside))[1];
await Promise.all(beside);
const ended = new AbortController();
setTimeout(() => ended.abort(), 300);
said.cancelled = await client
  .callTool({ name: "exec", arguments: { command: "sleep 61" } }, undefined, { signal: ended.signal })
  .catch(() => "cancelled");
// Nobody answers when a cancelled command has ended: looked at until it has, for ten seconds.
for (let tries = 0; tries < 100 && said.left?.[1] !== "0\n[exit code 0]"; tries++) {
  if (tries) await new Promise((resolve) => setTimeout(resolve, 100));
  said.left = await call("exec", { command: "grep -l sleep /proc/[0-9]*/comm 2>/dev/null | wc -l; true" });
}
said.wrong = await client.callTool({ name: "nosuch", arguments: {} }).catch((error) => error.code);
said.kind = await client.callTool({ name: "exec", arguments: { command: 1 } }).catch((error) => error.code);
await client.close();
console.log(JSON.stringify(said));
