"""Pictures, end to end on the starter models: sketches, OpenAI's images, A1111's txt2img family."""
import asyncio
import base64
import contextlib
import http.client
import json
import os
import signal
import struct
import unittest

from lares_server import PATIENCE, Server, chat_body, stream

APPLE = '"a red apple" | encode | sample 8 seed 7 | out png\n'


def png_size(data):
    if data[:8] != b"\x89PNG\r\n\x1a\n" or data[12:16] != b"IHDR":
        raise AssertionError("not a PNG")
    return struct.unpack(">II", data[16:24])


def wait(server, sketch, **fields):
    """-> (status, what became of it)"""
    return server.post("/v1/sketches", {"sketch": sketch, **fields}, {"Prefer": "wait"})


def result(server, answer, index):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", answer["outputs"][index]["url"])
        response = connection.getresponse()
        return response.getheader("Content-Type"), response.read()


def events(server, sketch_id, on_event=None):
    """All events of a sketch until its end -> [(name, data)]"""
    got = []
    connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", f"/v1/sketches/{sketch_id}/events")
        name = ""
        for line in connection.getresponse():
            line = line.decode().strip()
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:"):
                got.append((name, json.loads(line[5:])))
                if on_event:
                    on_event(name)
                if name == "end":
                    return got
    return got


class Pictures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.server.wait_for(lambda: cls.server.post("/v1/sketches/check", {"sketch": APPLE})[0] == 200,
                            "found the image model")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_a_picture_comes_back_and_is_the_same_again_without_a_step(self):
        body = {"prompt": "a green tree", "seed": 7, "size": "64x64"}
        status, first = self.server.post("/v1/images/generations", body)
        self.assertEqual(status, 200, first)
        data = base64.b64decode(first["data"][0]["b64_json"])
        self.assertEqual(png_size(data), (64, 64))
        _, again = self.server.post("/v1/images/generations", body)
        self.assertEqual(first["data"], again["data"])
        _, other = self.server.post("/v1/images/generations", {**body, "seed": 8})
        self.assertNotEqual(first["data"], other["data"])

    def test_an_identical_sketch_runs_no_step_and_the_same_words_no_encoder(self):
        sketch = '"a yellow banana" | encode | sample 6 seed %d | out png\n'
        status, first = wait(self.server, sketch % 1)
        self.assertEqual(status, 200, first)
        self.assertEqual(first["status"], "done")
        self.assertEqual(first["record"]["unet_steps"], 6)
        self.assertEqual(first["record"]["decodes"], 1)
        _, again = wait(self.server, sketch % 1)
        self.assertEqual(again["record"]["unet_steps"], 0)
        self.assertEqual(again["record"]["text_encodes"], 0)
        self.assertEqual(result(self.server, first, 0), result(self.server, again, 0))
        _, other = wait(self.server, sketch % 2)
        self.assertEqual(other["record"]["text_encodes"], 0)
        self.assertEqual(other["record"]["unet_steps"], 6)
        _, plan = self.server.post("/v1/sketches/check", {"sketch": sketch % 1})
        self.assertTrue([n for n in plan["nodes"] if n["op"] == "sample"][0]["cached"])
        self.assertEqual(plan["price"]["unmeasured"], [])

    def test_branches_share_what_came_before(self):
        status, answer = wait(self.server, 'c = "a house" | encode\nmid = sample c 6 seed 3 until 4\n'
                              'out (mid | sample c) png\nout (mid | sample ("a boat" | encode)) png\n'
                              'out (sample c 6 seed 3) png\n')
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["status"], "done", answer)
        self.assertEqual(answer["record"]["unet_steps"], 4 + 2 + 2 + 6)
        pictures = [result(self.server, answer, i)[1] for i in range(3)]
        self.assertNotEqual(pictures[0], pictures[1])
        self.assertEqual(pictures[0], pictures[2])  # Stopping on the way changes nothing.

    def test_latents_are_resized_blended_walked_and_cross_through_pixels(self):
        status, answer = wait(
            self.server, 'c = "a red apple" | encode\na = sample c 4 seed 1\nb = sample c 4 seed 2\n'
            'out (a | resize 2x | sample c 4 from 0.5 seed 3) png\nout (walk a b 3) png\nout (blend a b) png\n'
            'out (a | pixels | latent | sample c 4 from 0.5 seed 4) png\nt = "done"\nout t txt\n')
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["status"], "done", answer)
        self.assertEqual(len(answer["outputs"]), 7)
        self.assertEqual(png_size(result(self.server, answer, 0)[1]), (128, 128))
        self.assertEqual(answer["record"]["encodes"], 1)
        self.assertEqual(result(self.server, answer, 6), ("text/plain; charset=utf-8", b"done"))

    def test_inputs(self):
        sketch = 'in what : Text = "a fish"\n"a blue {what}" | encode | sample 4 seed 1 | out png\n'
        _, usual = wait(self.server, sketch)
        _, same = wait(self.server, sketch, inputs={"what": "a fish"})
        _, other = wait(self.server, sketch, inputs={"what": "car"})
        pictures = [result(self.server, answer, 0) for answer in (usual, same, other)]
        self.assertEqual(pictures[0], pictures[1])
        self.assertNotEqual(pictures[0], pictures[2])

    def test_events_bring_steps_previews_and_the_end(self):
        status, answer = self.server.post("/v1/sketches", {
            "sketch": '"a ship" | encode | sample 30 seed 5 | out png\n', "previews": True})
        self.assertEqual(status, 202)
        got = events(self.server, answer["id"])
        names = [name for name, _ in got]
        self.assertEqual(names[0], "status")
        self.assertEqual(names[-1], "end")
        self.assertIn("progress", names)
        self.assertIn("preview", names)
        preview = [data for name, data in got if name == "preview"][0]
        self.assertEqual(png_size(base64.b64decode(preview["png"])), (16, 16))
        self.assertEqual(got[-1][1]["status"], "done")
        self.assertEqual(got[-1][1]["step"], got[-1][1]["total"])

    def test_what_is_wrong_is_said(self):
        for sketch, code in (('"a" | encod', "L1"), ("out (sample c 20) png", "N1"),
                             ('use starter-image at 65x64\n"a" | encode | sample 2 | out png', "S1"),
                             ('use starter-image at 4096x4096\n"a" | encode | sample 2 | out png', "L2"),
                             ('"a" | encode | sample 100000 | out png', "L2")):
            status, answer = wait(self.server, sketch)
            self.assertEqual(status, 400, answer)
            self.assertEqual(answer["error"]["code"], "sketch_faulty")
            self.assertIn(code, [e["code"] for e in answer["errors"]], answer)
        for path, body, part in (
                ("/v1/images/generations", {"prompt": "a", "size": "big"}, "size"),
                ("/v1/images/generations", {}, "prompt"),
                ("/v1/images/generations", {"prompt": "a", "n": 99}, "n"),
                ("/sdapi/v1/img2img", {"prompt": "a", "init_images": ["AAAA"]}, "init_images")):
            status, answer = self.server.post(path, body)
            self.assertEqual(status, 400, answer)
            self.assertIn(part, answer["error"]["param"] + answer["error"]["message"])
        status, answer = wait(self.server, '"a" | encode | sample 2 | out webp\n')
        self.assertEqual((status, answer["error"]["code"]), (400, "sketch_unsupported"), answer)
        status, answer = self.server.post("/v1/images/generations", {"prompt": "a", "model": "starter-imag"})
        self.assertEqual(status, 400)
        self.assertIn("starter-image", answer["error"]["message"])
        self.assertEqual(self.server.get("/v1/sketches/sketch-1")[0], 404)

    def test_the_image_model_does_not_chat(self):
        status, answer = self.server.chat("Hello", model="starter-image")
        self.assertEqual((status, answer["error"]["code"]), (400, "model_cannot_generate"), answer)

    def test_a1111(self):
        self.assertEqual([m["title"] for m in json.loads(self.server.get("/sdapi/v1/sd-models")[1])], ["starter-image"])
        body = {"prompt": "a red apple", "steps": 4, "seed": 11, "width": 64, "height": 64, "batch_size": 2}
        status, answer = self.server.post("/sdapi/v1/txt2img", body)
        self.assertEqual(status, 200, answer)
        self.assertEqual(len(answer["images"]), 2)
        self.assertEqual(json.loads(answer["info"])["all_seeds"], [11, 12])
        status, changed = self.server.post("/sdapi/v1/img2img", {**body, "batch_size": 1, "prompt": "a banana",
                                                                 "init_images": answer["images"][:1]})
        self.assertEqual(status, 200, changed)
        self.assertEqual(png_size(base64.b64decode(changed["images"][0])), (64, 64))
        self.assertEqual(json.loads(self.server.get("/sdapi/v1/progress")[1])["progress"], 0)
        self.assertEqual(self.server.post("/sdapi/v1/interrupt", {})[0], 200)

    def test_a_cancelled_picture_stops(self):
        _, answer = self.server.post("/v1/sketches", {"sketch": '"a" | encode | sample 500 seed 5 | out png\n'})
        done = []

        def cancel(name):
            if name == "progress" and not done:
                done.append(self.server.request("DELETE", f"/v1/sketches/{answer['id']}")[0])

        got = events(self.server, answer["id"], cancel)
        self.assertEqual(done, [200])
        self.assertEqual(got[-1][1]["status"], "cancelled")
        self.assertLess(got[-1][1]["step"], 500)

    def test_a_chat_goes_on_while_a_picture_is_made(self):
        _, answer = self.server.post("/v1/sketches", {"sketch": '"a" | encode | sample 300 seed 6 | out png\n'})
        text = asyncio.run(stream(self.server, chat_body("Tell me a story", max_tokens=24, ignore_eos=True)))
        self.assertTrue(text.done)
        self.assertEqual(text.usage is None and text.finish, "length")
        _, now = self.server.get(f"/v1/sketches/{answer['id']}")
        self.assertEqual(json.loads(now)["status"], "running")
        self.server.request("DELETE", f"/v1/sketches/{answer['id']}")
        self.assertEqual(events(self.server, answer["id"])[-1][1]["status"], "cancelled")

    def test_usage_counts_the_device_time(self):
        wait(self.server, '"a cup" | encode | sample 4 seed 1 | out png\n')
        self.server.wait_for(lambda: "starter-image" in self.server.get("/v1/usage?by=model")[1], "written down")
        rows = json.loads(self.server.get("/v1/usage?by=model")[1])["data"]
        row = [r for r in rows if r["key"] == "starter-image"][0]
        self.assertGreater(row["device_seconds"], 0)


class Crashes(unittest.TestCase):
    def test_a_picture_comes_though_its_worker_is_killed(self):
        with Server() as server:
            server.wait_for(lambda: server.post("/v1/sketches/check", {"sketch": APPLE})[0] == 200, "found the model")
            _, first = wait(server, '"a red apple" | encode | sample 40 seed 9 | out png\n')
            expected = result(server, first, 0)
        with Server() as server:
            server.wait_for(lambda: server.post("/v1/sketches/check", {"sketch": APPLE})[0] == 200, "found the model")
            _, answer = server.post("/v1/sketches", {"sketch": '"a red apple" | encode | sample 40 seed 9 | out png\n'})
            killed = []

            def kill(name):
                if name == "progress" and not killed:
                    killed.append(server.children()["device"])
                    os.kill(killed[0], signal.SIGKILL)

            got = events(server, answer["id"], kill)
            self.assertTrue(killed)
            self.assertEqual(got[-1][1]["status"], "done", got[-1])
            self.assertEqual(result(server, got[-1][1], 0), expected)
            self.assertNotEqual(server.children()["device"], killed[0])


if __name__ == "__main__":
    unittest.main()
