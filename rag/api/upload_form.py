"""The form by which files are uploaded. In: multipart/form-data. Out: checked values."""

from __future__ import annotations

from rest_framework import serializers

from rag.api.fields import JSONObjectField, StrictSerializer
from rag.core.errors import InvalidInputError
from rag.stages.encodings import encoding_name


class UploadForm(StrictSerializer):
    """A form with files, posted as multipart/form-data."""

    store = serializers.CharField(help_text="The store's id, slug or name.")
    files = serializers.ListField(
        child=serializers.FileField(allow_empty_file=True), min_length=1, max_length=100,
        help_text="One or more documents, each up to 100 MB; zip bundles are unpacked.",
    )  # fmt: skip
    content_type = serializers.CharField(required=False, max_length=60)
    metadata = JSONObjectField(required=False, help_text="A JSON object, for all files.")
    encoding = serializers.CharField(
        required=False, max_length=40,
        help_text="Of texts, such as gb18030, where it is told wrongly from the bytes.",
    )  # fmt: skip
    replace = serializers.BooleanField(
        default=False,
        help_text="A file whose name the store has becomes that file's next revision.",
    )

    def validate_encoding(self, value: str) -> str:
        """Return the codec; an unknown one is told beside its field."""
        try:
            return encoding_name(value)
        except InvalidInputError as error:
            raise serializers.ValidationError(str(error)) from error
