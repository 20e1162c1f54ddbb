"""OCR by RapidOCR (PP-OCR models on ONNX Runtime), an extra; its models are in its package."""
