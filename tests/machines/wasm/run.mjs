// Runs the module that is named, and writes what it says to standard output, and its sizes to standard error.

import { readFileSync, writeSync } from "node:fs";

const module = readFileSync(process.argv[2]);
const pieces = [];
let memory;
const host = {
  // The piece is copied: its place in the module's memory is used again.
  write: (at, length) => pieces.push(Buffer.from(new Uint8Array(memory.buffer, at, length))),
};
const { instance } = await WebAssembly.instantiate(module, { host });
memory = instance.exports.memory;
const failed = instance.exports.run();
const text = Buffer.concat(pieces);
for (let done = 0; done < text.length; ) done += writeSync(1, text, done);
console.error(`module ${module.length} bytes; memory ${memory.buffer.byteLength} bytes at most`);
process.exit(failed);
