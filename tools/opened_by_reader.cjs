// Folders of opened_by.py -> a line of JSON for each library of Node.
//
//     node opened_by_reader.cjs WORK DIR
//
// DIR/node_modules has @huggingface/transformers, which brings the
// onnxruntime of Node and that of browsers, in WebAssembly.
const fs = require("fs");
const { createRequire } = require("module");

const [work, dir] = process.argv.slice(2);
const load = createRequire(`${fs.realpathSync(dir)}/`);
const json = (path) => JSON.parse(fs.readFileSync(path));

const scores = (found) => [found].flat().map(({ score }) => score);
const byLabel = (found) =>
  scores(["bad", "good", "so so"].map((x) => found.find((y) => y.label === x)));
// Kind -> task, options, and numbers of an answer.
const PIPELINES = {
  classification: ["text-classification", { top_k: null }, byLabel],
  multi_label: ["text-classification", { top_k: null }, byLabel],
  tagging: ["token-classification", { ignore_labels: [] }, scores],
  question_answering: ["question-answering", {}, scores],
  fill_mask: ["fill-mask", { top_k: 5 }, scores],
  sentence_embedding: ["feature-extraction", { pooling: "mean" }, (x) => x.data],
};

function difference(found, wanted) {
  if (found.length !== wanted.length)
    throw Error(`${found.length} numbers; expected ${wanted.length}`);
  return Math.max(...wanted.map((x, i) => Math.abs(found[i] - x)));
}

async function pipelines(dtype) {
  const { env, pipeline } = load("@huggingface/transformers");
  Object.assign(env, { localModelPath: work, allowRemoteModels: false });
  const found = [];
  for (const [kind, [task, options, numbers]] of Object.entries(PIPELINES)) {
    const pipe = await pipeline(task, kind, { dtype });
    const rows = json(`${work}/${kind}/expected.json`);
    for (const { text, answer } of rows)
      found.push(difference(numbers(await pipe(...text, options)), answer));
    if (kind !== "sentence_embedding") continue;
    const all = await pipe(rows.flatMap(({ text }) => text), options); // Padded.
    found.push(difference(all.data, rows.flatMap(({ answer }) => answer)));
  }
  return Math.max(...found);
}

async function sessions(library) {
  const { InferenceSession, Tensor } = load(library);
  const found = [];
  for (const kind of Object.keys(PIPELINES)) {
    const file = fs.readFileSync(`${work}/${kind}/onnx/model.onnx`);
    const session = await InferenceSession.create(file);
    for (const { ids, types, outputs } of json(`${work}/${kind}/expected.json`)) {
      const tensor = (x) =>
        new Tensor("int64", BigInt64Array.from(x, BigInt), [1, x.length]);
      const results = await session.run({
        input_ids: tensor(ids),
        attention_mask: tensor(ids.map(() => 1)),
        token_type_ids: tensor(types),
      });
      for (const [name, wanted] of Object.entries(outputs))
        found.push(difference(results[name].data, wanted));
    }
  }
  return Math.max(...found);
}

async function print(library, what, check) {
  const { version } = json(`${dir}/node_modules/${library}/package.json`);
  const row = { library, version, what };
  try {
    const largest = await check();
    if (!Number.isFinite(largest)) throw Error(`a difference of ${largest}`);
    row.difference = largest;
  } catch (error) {
    row.error = String(error).split("\n")[0];
  }
  console.log(JSON.stringify(row));
}

(async () => {
  for (const library of ["onnxruntime-node", "onnxruntime-web"])
    await print(library, "`InferenceSession`", () => sessions(library));
  for (const dtype of ["fp32", "fp16", "q8"])
    await print("@huggingface/transformers", `\`pipeline\`, ${dtype}`, () =>
      pipelines(dtype),
    );
})();
