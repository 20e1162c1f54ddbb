// Bundles of the flow editor's libraries into static files, with the licences of what is in them.
import { build } from "esbuild";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

const target = "../agents/static/agents/vendor";
const { metafile } = await build({
  entryPoints: ["codemirror.js", "canvas.js", "flow_text.js"],
  bundle: true,
  format: "esm",
  minify: true,
  metafile: true,
  target: "es2022",
  legalComments: "none",
  define: { "process.env.NODE_ENV": '"production"' },
  outdir: target,
});
const css = await build({ entryPoints: ["@xyflow/react/dist/style.css"], bundle: true, minify: true, legalComments: "none", outfile: `${target}/canvas.css` });
if (css.errors.length) throw new Error("the stylesheet cannot be read");

const packages = new Set(Object.keys(metafile.inputs).map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean));
const texts = [...packages].sort().map((name) => {
  const folder = `node_modules/${name}`;
  const { version, license } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  const text = file ? readFileSync(`${folder}/${file}`, "utf8").trim() : "";
  return `${name} ${version} (${license})\n\n${text}\n`;
});
writeFileSync(`${target}/LICENSES.txt`, texts.join(`\n${"-".repeat(80)}\n\n`));
