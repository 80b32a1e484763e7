"""litserve with a trivial model."""

import sys

import litserve


class Square(litserve.LitAPI):
    def setup(self, device: str) -> None:
        self.model = lambda x: x * x

    def decode_request(self, request: dict[str, float]) -> float:
        return request["input"]

    def predict(self, x: float) -> float:
        return float(self.model(x))

    def encode_response(self, output: float) -> dict[str, float]:
        return {"output": output}


if __name__ == "__main__":
    server = litserve.LitServer(Square(), accelerator="cpu")
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False)
